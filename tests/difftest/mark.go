package difftest

import (
	"os"
	"strings"
)

// Mark rewrites a case file's marks so that they say what was noted: refused
// always, sometimes or never. Cases that did not run keep theirs.
func Mark(path string, noted map[int]Note) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	marked := markText(string(text), noted)
	if marked == string(text) {
		return nil
	}
	return os.WriteFile(path, []byte(marked), 0o644)
}

func markText(text string, noted map[int]Note) string {
	var out []string
	mark := "" // the one in front of the next case
	for i, line := range strings.Split(text, "\n") {
		if line == "-- unsupported" || line == "-- unsupported: sometimes" {
			mark = line
			continue
		}
		statement := line != "" && !strings.HasPrefix(line, "-- ") && !strings.HasPrefix(line, "#") && line[0] != ' ' && line[0] != '\t'
		if statement {
			if n, ok := noted[i+1]; ok {
				switch {
				case n.Refused == 0:
					mark = ""
				case n.Answered == 0:
					mark = "-- unsupported"
				default:
					mark = "-- unsupported: sometimes"
				}
			}
			if mark != "" {
				out = append(out, mark)
			}
			mark = ""
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
