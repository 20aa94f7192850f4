import java.util.HashMap;
import java.util.Random;

/** load.py's `python` for java: Load OPS. A map of arrays, look-ups by a Zipf law, some of which replace their value. */
class Load {
    static final int ENTRIES = 220_000;

    public static void main(String[] arguments) throws Exception {
        int ops = Integer.parseInt(arguments[0]);
        var sums = new double[ENTRIES];
        double total = 0;
        for (int rank = 0; rank < ENTRIES; rank++) sums[rank] = total += Math.pow(rank + 1, -0.99);
        var random = new Random(1);
        var table = new HashMap<Integer, byte[]>();
        for (int key = 0; key < ENTRIES; key++) table.put(key, value(random));
        System.err.println("ready " + ProcessHandle.current().pid());
        System.in.read();
        long start = System.nanoTime(), sum = 0;
        for (int number = 0; number < ops; number++) {
            int rank = java.util.Arrays.binarySearch(sums, random.nextDouble() * total);
            int key = (int) ((rank < 0 ? -rank - 1 : rank) * 2_654_435_761L % ENTRIES);
            byte[] value = table.get(key);
            sum += value[number % 900]++;
            if (number % 50 == 0) table.put(key, value(random));
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.println("{\"ops\": " + ops + ", \"seconds\": " + seconds + ", \"sum\": " + sum + "}");
        // The rest of the line that began it, and the next.
        while (System.in.read() != '\n') {}
        System.in.read();
    }

    static byte[] value(Random random) {
        var value = new byte[900];
        random.nextBytes(value);
        return value;
    }
}
