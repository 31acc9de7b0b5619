package conf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
)

// Load reads the configuration in the file at path, complete and valid, or
// answers all its problems as Problems (or the error of reading the file).
// Relative names of files in it are taken from the file's own folder.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	c.File = path
	folder := filepath.Dir(path)
	from := func(name *string) {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(folder, *name)
		}
	}
	from(&c.Log.File)
	from(&c.Proxy.TLSCertificate)
	from(&c.Proxy.TLSKey)
	from(&c.Proxy.TLSCA)
	for i := range c.Users {
		from(&c.Users[i].PasswordFile)
	}
	for i := range c.Admin.Users {
		from(&c.Admin.Users[i].PasswordFile)
	}
	for i := range c.Nodes {
		from(&c.Nodes[i].PasswordFile)
		from(&c.Nodes[i].TLSCA)
		from(&c.Nodes[i].TLSCertificate)
		from(&c.Nodes[i].TLSKey)
	}
	return c, nil
}

// Parse reads a configuration's text, complete and valid, or answers all its
// problems as Problems; name stands for the file in them. Nothing outside the
// text is looked at, and the text is not kept.
func Parse(name string, text []byte) (*Config, error) {
	source := strings.TrimPrefix(string(text), "\ufeff")
	var tree map[string]any
	if _, err := toml.Decode(source, &tree); err != nil {
		return nil, syntaxProblem(name, source, err)
	}
	c := &Config{}
	d := decoder{set: map[string]bool{}}
	d.table(reflect.ValueOf(c).Elem(), tree, place{})
	c.fill(func(path string, _ reflect.Value) bool { return d.set[path] })

	problems := d.problems
	mistyped := map[string]bool{}
	for _, p := range problems {
		mistyped[p.index] = true
	}
	for _, p := range c.check() {
		// A value of the wrong type was not read, so what the rules say about the
		// place would be said twice.
		if !mistyped[p.index] {
			problems = append(problems, p)
		}
	}
	problems.locate(name, source, indexPositions(source))
	if err := problems.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// syntaxProblem is the library's error as a Problem. The message of a line about
// a password is replaced: it may quote the value.
func syntaxProblem(name, text string, err error) error {
	var syntax toml.ParseError
	if !errors.As(err, &syntax) {
		return Problems{{File: name, What: err.Error()}}
	}
	p := Problem{File: name, What: syntax.Message, Fix: "see https://toml.io for the format"}
	p.Line, p.Column = lineColumn(text, syntax.Position.Start)
	if lines := strings.Split(text, "\n"); strings.Contains(syntax.LastKey, "password") ||
		p.Line <= len(lines) && strings.Contains(lines[p.Line-1], "password") {
		p.What = "the value of a password is not valid TOML"
		p.Fix = `put it in quotes; in double quotes, write \\ for \ and \" for "`
	}
	return Problems{p}
}
