package router

import "strings"

// clockFunctions are those whose answer SET timestamp fixes.
var clockFunctions = [...]string{
	"now", "current_timestamp", "localtime", "localtimestamp", "curdate", "current_date", "curtime",
	"current_time", "utc_date", "utc_time", "utc_timestamp", "unix_timestamp",
}

// readsClock tells whether a write of tables asks for the time, in its text, by
// what columns have when they are not given, or, as may be, in triggers (rule M5).
func (f *found) readsClock(written ...*Table) bool {
	for _, name := range clockFunctions {
		if f.functions[name] {
			return true
		}
	}
	for _, t := range written {
		if t.Triggers {
			return true
		}
		for i := range t.Columns {
			c := &t.Columns[i]
			if strings.Contains(strings.ToLower(c.Extra), "on update") ||
				c.Default != nil && (c.DataType == "timestamp" || c.DataType == "datetime" || strings.Contains(*c.Default, "(")) {
				return true
			}
		}
	}
	return false
}
