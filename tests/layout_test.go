// Package tests holds the checks on the tree itself. The end-to-end tests are
// in its subfolders.
package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layer says which of Braid's packages a folder may import directly, and why
// not others. The longest matching folder counts.
type layer struct {
	folder string
	may    []string // folders; their subfolders are included
	reason string
}

var layers = []layer{
	{"internal/mysql", nil, "the wire is a leaf: it imports nothing of Braid's"},
	{"conf", nil, "the configuration is plain data that everybody reads"},
	{"merge", []string{"internal/mysql"}, "merge knows rows and its Spec, not where they come from"},
	{"router", []string{"merge", "internal/mysql", "conf"}, "router is pure: no I/O, so neither backend nor proxy"},
	{"backend", []string{"internal/mysql", "conf"}, "backend and router never meet: they agree on a shard's name"},
	{"proxy", []string{"internal/mysql", "conf", "merge", "router", "backend"}, "proxy executes; nothing of tests or cmd goes into it"},
	{"cmd", []string{"conf", "proxy", "router", "backend", "internal/mysql"}, "cmd loads, builds, runs and drains"},
	{"tests", []string{""}, "tests may use anything"},
}

// outside are packages that only the named folders may import.
var outside = []struct {
	path, reason string
	folders      []string
}{
	{"github.com/pingcap/tidb/pkg/parser", "the parser's AST does not leave router", []string{"router", "tests"}},
	{"testing", "test code does not ship in the product", []string{"tests"}},
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
}

const module = "braid"

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, &stderr)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list found %d packages only", len(all))
	}
	return all
}

// folder is a package's path inside the module.
func (p *listed) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func under(folder, root string) bool {
	return root == "" || folder == root || strings.HasPrefix(folder, root+"/")
}

// layerOf is the layer a folder belongs to, nil when the table has none.
func layerOf(folder string) *layer {
	for i := range layers {
		if under(folder, layers[i].folder) {
			return &layers[i]
		}
	}
	return nil
}

// importErrors checks one package against both tables.
func importErrors(p *listed) []string {
	folder := p.folder()
	l := layerOf(folder)
	if l == nil {
		return []string{fmt.Sprintf("%s: the layout has no such folder; add it to the table with its reason, or move it", p.ImportPath)}
	}
	var found []string
	for _, path := range p.Imports {
		if rest, ours := strings.CutPrefix(path, module+"/"); ours {
			allowed := under(rest, l.folder) || slices.ContainsFunc(l.may, func(root string) bool { return under(rest, root) })
			if !allowed {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, l.reason))
			}
		}
		for _, o := range outside {
			if path != o.path && !strings.HasPrefix(path, o.path+"/") {
				continue
			}
			if !slices.ContainsFunc(o.folders, func(root string) bool { return under(folder, root) }) {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, o.reason))
			}
		}
	}
	return found
}

func TestImportsFollowTheLayout(t *testing.T) {
	for _, p := range list(t) {
		for _, text := range importErrors(&p) {
			t.Error(text)
		}
	}
}

// TestImportErrors shows that the check can fail.
func TestImportErrors(t *testing.T) {
	for _, c := range []struct {
		name, folder, imports string
		bad                   bool
	}{
		{"router uses merge", "router", "braid/merge", false},
		{"router uses backend", "router", "braid/backend", true},
		{"backend uses router", "backend", "braid/router", true},
		{"leaf uses conf", "internal/mysql", "braid/conf", true},
		{"a subfolder of its own", "router", "braid/router/scan", false},
		{"parser in router", "router", "github.com/pingcap/tidb/pkg/parser/ast", false},
		{"parser in proxy", "proxy", "github.com/pingcap/tidb/pkg/parser", true},
		{"unknown folder", "util", "fmt", true},
		{"tests use anything", "tests/e2e", "braid/proxy", false},
		{"product uses tests", "proxy", "braid/tests/servers", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listed{ImportPath: module + "/" + c.folder, Imports: []string{c.imports}}
			if got := importErrors(&p); (len(got) > 0) != c.bad {
				t.Errorf("got %q", got)
			}
		})
	}
}

// banned is a call that a kind of file must not make.
type banned struct {
	call   string // "package.Func", or a builtin's name
	reason string
	where  func(file string) bool
}

func isTest(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tests/")
}
func isProduct(file string) bool {
	return !isTest(file) && !strings.HasPrefix(file, "cmd/")
}

var bannedCalls = []banned{
	{"time.Sleep", "a sleeping test is slow and flaky: wait for the event itself, or use testing/synctest", isTest},
	{"fmt.Print", "the product logs, it does not print", isProduct},
	{"fmt.Printf", "the product logs, it does not print", isProduct},
	{"fmt.Println", "the product logs, it does not print", isProduct},
	{"print", "the product logs, it does not print", func(string) bool { return true }},
	{"println", "the product logs, it does not print", func(string) bool { return true }},
	{"os.Exit", "only cmd ends the process", isProduct},
	{"log.Fatal", "only cmd ends the process", isProduct},
	{"log.Fatalf", "only cmd ends the process", isProduct},
	{"log.Printf", "the product logs with zap", isProduct},
	{"log.Println", "the product logs with zap", isProduct},
}

// fileErrors checks one parsed file; name is its path inside the module.
func fileErrors(set *token.FileSet, name string, file *ast.File) []string {
	var found []string
	tool := file.Name.Name == "main" && !isTest(name) // a generator beside what it generates, run by hand
	report := func(pos token.Pos, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s:%d: %s", name, set.Position(pos).Line, fmt.Sprintf(format, args...)))
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			report(f.Pos(), "init(): nothing registers itself; what a thing needs is handed to it")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		var called string
		switch f := call.Fun.(type) {
		case *ast.Ident:
			called = f.Name
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok && x.Obj == nil {
				called = x.Name + "." + f.Sel.Name
			}
		}
		for _, b := range bannedCalls {
			if called == b.call && b.where(name) && !tool {
				report(call.Pos(), "%s: %s", called, b.reason)
			}
		}
		return true
	})
	return found
}

// linesMax is the ratchet on file length for code that is not a test; linesWant is the style's wish.
const (
	linesMax  = 900
	linesWant = 600
)

func TestFilesFollowTheStyle(t *testing.T) {
	set := token.NewFileSet()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		n++
		for _, text := range fileErrors(set, name, file) {
			t.Error(text)
		}
		lines := set.File(file.Pos()).LineCount()
		switch {
		case strings.HasSuffix(name, "_test.go") || ast.IsGenerated(file):
		case lines > linesMax:
			t.Errorf("%s has %d lines: over %d; one concept per file", name, lines, linesMax)
		case lines > linesWant:
			t.Logf("%s has %d lines: more than the %d one wants", name, lines, linesWant)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 10 {
		t.Fatalf("only %d files found under the module", n)
	}
}

// TestFileErrors shows that the check can fail.
func TestFileErrors(t *testing.T) {
	for _, c := range []struct {
		name, file, body string
		bad              bool
	}{
		{"sleep in a test", "proxy/x_test.go", `import "time"; func f() { time.Sleep(1) }`, true},
		{"sleep in the product", "proxy/x.go", `import "time"; func f() { time.Sleep(1) }`, false},
		{"print in the product", "router/x.go", `import "fmt"; func f() { fmt.Println() }`, true},
		{"print in cmd", "cmd/braid/x.go", `import "fmt"; func f() { fmt.Println() }`, false},
		{"a generator prints", "router/gen.go", `import "fmt"; func f() { fmt.Println() }`, false},
		{"init", "router/x.go", `func init() {}`, true},
		{"a method called init", "router/x.go", `type T int; func (T) init() {}`, false},
		{"a variable called log", "router/x.go", `func f(log interface{ Printf() }) { log.Printf() }`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := token.NewFileSet()
			name := "p"
			if strings.HasSuffix(c.file, "/gen.go") {
				name = "main"
			}
			file, err := parser.ParseFile(set, c.file, "package "+name+"; "+c.body, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := fileErrors(set, c.file, file); (len(got) > 0) != c.bad {
				t.Errorf("got %q", got)
			}
		})
	}
}
