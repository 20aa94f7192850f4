// The service of service.py for java: Service ROWS
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;

class Service {
    public static void main(String[] arguments) throws Exception {
        var rows = new HashMap<Integer, String>();
        for (int id = 0; id < Integer.parseInt(arguments[0]); id++) rows.put(id, ("row " + id + " ").repeat(8));
        System.out.println("ready");
        var requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null; ) {
            int first = Integer.parseInt(line);
            var found = new ArrayList<String>();
            for (int id = first; id < first + 500; id++) found.add(rows.get(id));
            System.out.println(found.stream().mapToLong(row -> row.charAt(8)).sum());
        }
    }
}
