package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	plain      = "hunter2"
	nativeHash = "*94BDCEBE19083CE2A1F959FD02F964C7AF4CFC29"
)

// TestSecretsNeverPrint sends a configuration full of passwords through every
// way a value reaches a log, and looks for them.
func TestSecretsNeverPrint(t *testing.T) {
	c := mustParse(t, small)
	c.Users[0].Password = plain
	c.Nodes[0].Secret = Secret{Password: plain}
	c.Admin.Users = []User{{Name: "ops", Secret: Secret{PasswordHash: nativeHash}}}

	var out bytes.Buffer
	for _, v := range []any{c, *c, c.Users, c.Users[0], &c.Users[0], c.Nodes, c.Nodes[0], c.Users[0].Secret, c.Admin} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Errorf("%T: %v", v, err)
		}
		out.Write(text)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		for _, encoder := range []zapcore.Encoder{
			zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
			zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
		} {
			log := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zap.DebugLevel))
			log.Info("x", zap.Any("any", v), zap.Reflect("reflect", v))
			log.Sugar().Infow("x", "v", v)
		}
	}
	out.WriteString(c.String())
	for _, ch := range Diff(c, mustParse(t, small)) {
		fmt.Fprintln(&out, ch)
		fmt.Fprintf(&out, "%+v", struct{ C Change }{ch})
	}
	for _, secret := range []string{plain, nativeHash, fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain)} {
		if i := strings.Index(out.String(), secret); i >= 0 {
			t.Errorf("a secret is shown: ...%s...", out.String()[max(0, i-100):i+len(secret)])
		}
	}
	if !strings.Contains(out.String(), "password_env N2") {
		t.Error("the name of a password's variable is not shown")
	}
	if c.Users[0].Password != plain || c.Nodes[0].Password != plain {
		t.Error("printing changed the configuration")
	}
}

// TestSyntaxErrorsHidePasswords holds that a password that is not valid TOML is
// not quoted by the message about it.
func TestSyntaxErrorsHidePasswords(t *testing.T) {
	for _, line := range []string{`password = hunter2`, `password = "a" hunter2`, `password = "\hunter2"`, `password_hash = *hunter2`, "password = 'hunter2"} {
		_, err := Parse("t", []byte(strings.Replace(small, `password = "s3cret"`, line, 1)))
		if err == nil {
			t.Errorf("%s is accepted", line)
			continue
		}
		if strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "'h'") {
			t.Errorf("%s: %v", line, err)
		}
		if !strings.HasPrefix(err.Error(), "t:") {
			t.Errorf("%s: no position: %v", line, err)
		}
	}
}

func TestResolve(t *testing.T) {
	env := func(name string) (string, bool) {
		switch name {
		case "SET":
			return "from env", true
		case "EMPTY":
			return "", true
		}
		return "", false
	}
	read := func(name string) ([]byte, error) {
		switch name {
		case "/good":
			return []byte("from file \r\nsecond line\n"), nil
		case "/empty":
			return []byte("\nsecond line"), nil
		}
		return nil, fs.ErrNotExist
	}
	for _, c := range []struct {
		name      string
		secret    Secret
		want, err string
	}{
		{"password", Secret{Password: "x"}, "x", ""},
		{"env", Secret{PasswordEnv: "SET"}, "from env", ""},
		{"env empty", Secret{PasswordEnv: "EMPTY"}, "", "password_env: the environment variable EMPTY is not set"},
		{"env unset", Secret{PasswordEnv: "NONE"}, "", "password_env: the environment variable NONE is not set"},
		{"file", Secret{PasswordFile: "/good"}, "from file ", ""},
		{"file empty", Secret{PasswordFile: "/empty"}, "", "password_file: the first line of /empty is empty"},
		{"file missing", Secret{PasswordFile: "/none"}, "", "password_file: file does not exist"},
		{"hash", Secret{PasswordHash: nativeHash}, "", "password_hash: a hash cannot be turned back into a password"},
		{"two", Secret{Password: "x", PasswordEnv: "SET"}, "", "more than one of password, password_env is set"},
		{"none", Secret{}, "", ""},
	} {
		got, err := c.secret.Resolve(env, read)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
	}
	if _, err := (Secret{PasswordFile: "/none"}).Resolve(env, read); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestPasswordHashForms(t *testing.T) {
	sha2 := "$A$005$" + strings.Repeat("\x01", 20) + strings.Repeat("a", 43)
	for _, c := range []struct{ name, written, want string }{
		{"native", nativeHash, nativeHash},
		{"sha2", sha2, sha2},
		{"sha2 in hex", fmt.Sprintf("0x%X", sha2), sha2},
		{"short native", "*12", ""},
		{"native with other letters", "*" + strings.Repeat("g", 40), ""},
		{"sha2 cut", sha2[:69], ""},
		{"hex of something else", "0x6162", ""},
	} {
		text := strings.Replace(small, `password = "s3cret"`, "password_hash = "+quote(c.written), 1)
		got, err := Parse("t", []byte(text))
		if c.want == "" {
			if err == nil {
				t.Errorf("%s is accepted", c.name)
			}
		} else if err != nil || got.Users[0].PasswordHash != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
