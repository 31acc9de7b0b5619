package router

import "strconv"

// parseDateTime reads a date, or a date and a time, in the spellings that both
// servers read alike: YYYY-MM-DD with -, / or . between, months and days of one
// or two digits, years of two; YYYYMMDD and YYYYMMDDHHMMSS; a time behind a blank
// or T. ok is false for every other spelling (the server may still read it) and
// for dates that depend on sql_mode (2020-02-30, 2020-00-01). fraction is the
// number of digits behind the seconds' dot.
func parseDateTime(b []byte) (t DateTime, fraction int, ok bool) {
	for len(b) > 0 && isBlankByte(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlankByte(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	n := digitCount(b)
	if n == len(b) {
		return compactDateTime(b)
	}
	if n != 4 && n != 2 {
		return t, 0, false
	}
	year := digitsValue(b[:n])
	if n == 2 {
		year = fullYear(year)
	}
	sep := b[n]
	if sep != '-' && sep != '/' && sep != '.' {
		return t, 0, false
	}
	var month, day int
	if month, b, ok = shortNumber(b[n+1:]); !ok || len(b) == 0 || b[0] != sep {
		return t, 0, false
	}
	if day, b, ok = shortNumber(b[1:]); !ok {
		return t, 0, false
	}
	t.Year, t.Month, t.Day = uint16(year), uint8(month), uint8(day)
	if len(b) > 0 {
		if b[0] != ' ' && b[0] != 'T' {
			return t, 0, false
		}
		b = b[1:]
		if fraction, ok = t.parseTime(b); !ok {
			return t, 0, false
		}
	}
	return t, fraction, t.valid()
}

// parseTime reads H:M[:S[.ffffff]], one or two digits each.
func (t *DateTime) parseTime(b []byte) (fraction int, ok bool) {
	var h, m, s int
	if h, b, ok = shortNumber(b); !ok || len(b) == 0 || b[0] != ':' {
		return 0, false
	}
	if m, b, ok = shortNumber(b[1:]); !ok {
		return 0, false
	}
	if len(b) > 0 {
		if b[0] != ':' {
			return 0, false
		}
		if s, b, ok = shortNumber(b[1:]); !ok {
			return 0, false
		}
	}
	t.Hour, t.Minute, t.Second = uint8(h), uint8(m), uint8(s)
	if len(b) == 0 {
		return 0, true
	}
	n := digitCount(b[1:])
	if b[0] != '.' || n == 0 || n > 6 || n != len(b)-1 {
		return 0, false
	}
	micros := digitsValue(b[1:])
	for range 6 - n {
		micros *= 10
	}
	t.Micros = uint32(micros)
	return n, true
}

func compactDateTime(b []byte) (t DateTime, fraction int, ok bool) {
	if len(b) != 8 && len(b) != 14 {
		return t, 0, false
	}
	t.Year = uint16(digitsValue(b[:4]))
	t.Month, t.Day = uint8(digitsValue(b[4:6])), uint8(digitsValue(b[6:8]))
	if len(b) == 14 {
		t.Hour, t.Minute, t.Second = uint8(digitsValue(b[8:10])), uint8(digitsValue(b[10:12])), uint8(digitsValue(b[12:14]))
	}
	return t, 0, t.valid()
}

func fullYear(y int) int {
	if y < 70 {
		return 2000 + y
	}
	return 1900 + y
}

func digitCount(b []byte) int {
	for i, c := range b {
		if !isDigitByte(c) {
			return i
		}
	}
	return len(b)
}

func digitsValue(b []byte) int {
	v := 0
	for _, c := range b {
		v = v*10 + int(c-'0')
	}
	return v
}

// shortNumber reads one or two digits.
func shortNumber(b []byte) (v int, rest []byte, ok bool) {
	n := digitCount(b)
	if n == 0 || n > 2 {
		return 0, b, false
	}
	return digitsValue(b[:n]), b[n:], true
}

// valid tells whether t is a day of the calendar with a time of that day, or the
// zero date. What lies between depends on sql_mode.
func (t *DateTime) valid() bool {
	if *t == (DateTime{}) {
		return true
	}
	if t.Hour > 23 || t.Minute > 59 || t.Second > 59 || t.Micros > 999999 || t.Year > 9999 {
		return false
	}
	return t.Month >= 1 && t.Month <= 12 && t.Day >= 1 && int(t.Day) <= daysIn(int(t.Year), int(t.Month))
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		// MySQL's calendar has no 29 February in the year 0.
		if year%4 == 0 && (year%100 != 0 || year%400 == 0 && year != 0) {
			return 29
		}
		return 28
	}
	return 31
}

// midnight tells whether the time of day is 00:00:00.
func (t *DateTime) midnight() bool {
	return t.Hour == 0 && t.Minute == 0 && t.Second == 0 && t.Micros == 0
}

// fits tells whether t has no digits beyond fraction ones behind the second.
func (t *DateTime) fits(fraction int) bool {
	unit := uint32(1)
	for range 6 - fraction {
		unit *= 10
	}
	return t.Micros%unit == 0
}

// appendDate appends YYYY-MM-DD.
func (t *DateTime) appendDate(dst []byte) []byte {
	dst = appendPadded(dst, int(t.Year), 4)
	dst = appendPadded(append(dst, '-'), int(t.Month), 2)
	return appendPadded(append(dst, '-'), int(t.Day), 2)
}

// append appends YYYY-MM-DD hh:mm:ss, and behind a dot the fraction without
// trailing zeros when there is one.
func (t *DateTime) append(dst []byte) []byte {
	dst = appendPadded(append(t.appendDate(dst), ' '), int(t.Hour), 2)
	dst = appendPadded(append(dst, ':'), int(t.Minute), 2)
	dst = appendPadded(append(dst, ':'), int(t.Second), 2)
	if t.Micros == 0 {
		return dst
	}
	dst = appendPadded(append(dst, '.'), int(t.Micros), 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendPadded appends v with leading zeros up to width digits.
func appendPadded(dst []byte, v, width int) []byte {
	for limit := 10; width > 1; width-- {
		if v < limit {
			for range width - 1 {
				dst = append(dst, '0')
			}
			break
		}
		limit *= 10
	}
	return strconv.AppendInt(dst, int64(v), 10)
}
