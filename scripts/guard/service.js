// The service of service.py for node: service.js ROWS
const rows = Array.from({length: Number(process.argv[2])}, (_, id) => ({id, text: ('row ' + id + ' ').repeat(8), seen: 0}));
process.stdout.write('ready\n');
require('readline').createInterface({input: process.stdin}).on('line', line => {
    let sum = 0;
    for (const row of rows.slice(Number(line), Number(line) + 500)) {
        sum += row.text.charCodeAt(8);
        row.seen++;
    }
    process.stdout.write(sum + '\n');
}).on('close', () => process.exit());
