"""A service that keeps rows of text in memory: for each line on stdin, the number of a row, it adds up 500 rows from
there on and answers with a line. service.js and Service.java do the same; scripts/guard/programs.py starts them.

  service.py ROWS
"""

import sys

rows = [("row %d " % number) * 8 for number in range(int(sys.argv[1]))]
print("ready", flush=True)
for line in sys.stdin:
    first = int(line)
    print(sum(len(row) for row in rows[first : first + 500]), flush=True)
