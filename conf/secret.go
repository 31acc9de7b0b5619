package conf

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// hidden stands for a value that is not shown.
const hidden = "(hidden)"

// Resolve looks the password up where the secret says: env is os.LookupEnv and
// read os.ReadFile outside of tests. An unset or empty variable, an unreadable
// file or one with an empty first line are errors, which name the place and
// never the value, and so is a hash, which no password can be had from. A secret
// without any form is "": an account without a password.
func (s Secret) Resolve(env func(string) (string, bool), read func(string) ([]byte, error)) (string, error) {
	switch {
	case len(s.forms()) > 1:
		return "", fmt.Errorf("more than one of %s is set", strings.Join(s.forms(), ", "))
	case s.PasswordHash != "":
		return "", errors.New("password_hash: a hash cannot be turned back into a password")
	case s.PasswordEnv != "":
		value, ok := env(s.PasswordEnv)
		if !ok || value == "" {
			return "", fmt.Errorf("password_env: the environment variable %s is not set", s.PasswordEnv)
		}
		return value, nil
	case s.PasswordFile != "":
		text, err := read(s.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("password_file: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return "", fmt.Errorf("password_file: the first line of %s is empty", s.PasswordFile)
		}
		return line, nil
	}
	return s.Password, nil
}

// forms are the keys that are set.
func (s Secret) forms() []string {
	var forms []string
	for _, f := range []struct{ key, value string }{
		{"password", s.Password}, {"password_env", s.PasswordEnv},
		{"password_file", s.PasswordFile}, {"password_hash", s.PasswordHash},
	} {
		if f.value != "" {
			forms = append(forms, f.key)
		}
	}
	return forms
}

// plainHash undoes the 0x form that MySQL prints with print_identified_with_as_hex;
// FillDefaults and Parse apply it, so that PasswordHash is the hash itself.
func plainHash(s string) string {
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		if b, err := hex.DecodeString(digits); err == nil {
			return string(b)
		}
	}
	return s
}

// isPasswordHash knows '*' and 40 hexadecimal digits (mysql_native_password), and
// '$A$', three hexadecimal digits of rounds, '$', 20 bytes of salt and 43
// characters (caching_sha2_password).
func isPasswordHash(s string) bool {
	if digits, ok := strings.CutPrefix(s, "*"); ok {
		_, err := hex.DecodeString(digits)
		return len(digits) == 40 && err == nil
	}
	return len(s) == 70 && s[:3] == "$A$" && s[6] == '$' && strings.Trim(s[3:6], "0123456789ABCDEFabcdef") == ""
}

// masked is the secret with what must not be shown replaced.
func (s Secret) masked() Secret {
	if s.Password != "" {
		s.Password = hidden
	}
	if s.PasswordHash != "" {
		s.PasswordHash = hidden
	}
	return s
}

// String says which form the secret has.
func (s Secret) String() string {
	switch {
	case s.PasswordEnv != "":
		return "password_env " + s.PasswordEnv
	case s.PasswordFile != "":
		return "password_file " + s.PasswordFile
	case s.PasswordHash != "":
		return "password_hash " + hidden
	case s.Password != "":
		return "password " + hidden
	}
	return "no password"
}

// Format answers every verb of fmt with String.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalJSON writes the form only.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// User and Node embed Secret, whose methods would stand for the whole of them.

func (u User) String() string {
	return fmt.Sprintf("user %s, %s, databases [%s]", u.Name, u.Secret.String(), strings.Join(u.Databases, " "))
}

// Format answers every verb of fmt with String.
func (u User) Format(f fmt.State, _ rune) { io.WriteString(f, u.String()) }

// MarshalJSON writes the user with the form of its secret.
func (u User) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name      string   `json:"name"`
		Secret    string   `json:"secret"`
		Databases []string `json:"databases,omitempty"`
	}{u.Name, u.Secret.String(), u.Databases})
}

func (n Node) String() string {
	return fmt.Sprintf("node %s, primary %s, replicas [%s], user %s, %s, connections_max %d",
		n.Name, n.Primary, strings.Join(n.Replicas, " "), n.User, n.Secret.String(), n.ConnectionsMax)
}

// Format answers every verb of fmt with String.
func (n Node) Format(f fmt.State, _ rune) { io.WriteString(f, n.String()) }

// MarshalJSON writes the node with the form of its secret.
func (n Node) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name           string   `json:"name"`
		Primary        string   `json:"primary"`
		Replicas       []string `json:"replicas,omitempty"`
		User           string   `json:"user"`
		Secret         string   `json:"secret"`
		ConnectionsMax int      `json:"connections_max"`
	}{n.Name, n.Primary, n.Replicas, n.User, n.Secret.String(), n.ConnectionsMax})
}
