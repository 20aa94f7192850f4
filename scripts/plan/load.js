// load.py's `python` for node: load.js OPS. A Map of objects, look-ups by a Zipf law, some of which replace their value.
const ENTRIES = 220000, ops = Number(process.argv[2]), fs = require('fs');
let seed = 1;
const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 4294967296;
};
const sums = new Float64Array(ENTRIES);
for (let rank = 0, total = 0; rank < ENTRIES; rank++) sums[rank] = total += (rank + 1) ** -0.99;
const zipf = () => {
    const wanted = random() * sums[ENTRIES - 1];
    let low = 0, high = ENTRIES - 1;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (sums[middle] < wanted) low = middle + 1; else high = middle;
    }
    return Number(BigInt(low) * 2654435761n % BigInt(ENTRIES));
};
const value = () => Array.from({length: 110}, () => random());
const table = new Map();
for (let key = 0; key < ENTRIES; key++) table.set(key, {value: value(), seen: 0});
const line = () => fs.readSync(0, Buffer.alloc(64));
process.stderr.write(`ready ${process.pid}\n`);
line();
const start = process.hrtime.bigint();
let sum = 0;
for (let number = 0; number < ops; number++) {
    const entry = table.get(zipf());
    sum += entry.value[number % 110];
    entry.seen++;
    if (number % 50 === 0) entry.value = value();
}
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
fs.writeSync(1, JSON.stringify({ops, seconds, sum}) + '\n');
line();
