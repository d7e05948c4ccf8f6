// Package digestmd5 computes the messages of both sides of the DIGEST-MD5 mechanism (RFC
// 2831), as far as ZooKeeper uses it: authentication only, once per connection, with the
// algorithm md5-sess.
package digestmd5

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the mechanism asks for it
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// URI is the service. ZooKeeper's clients and servers do not include a host in it.
	URI = "zookeeper/zk-sasl-md5"
	// Count is how often the nonce was used.
	Count = "00000001"
	// Protection means authentication only.
	Protection = "auth"
)

// errMalformed reports a text that is not a list of directives.
var errMalformed = errors.New("malformed DIGEST-MD5 directives")

// Allowed returns an error if the runtime does not allow MD5. Using it would then panic,
// and end the program from one of our goroutines.
func Allowed() (err error) {
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v", refusal)
		}
	}()
	hash(nil)
	return nil
}

// Terms is what both sides know.
type Terms struct {
	User, Password, Realm string
	Nonce, ClientNonce    string
}

// Client returns the client's proof that it knows the password.
func (t Terms) Client() string { return t.proof("AUTHENTICATE:" + URI) }

// Server returns the server's proof.
func (t Terms) Server() string { return t.proof(":" + URI) }

func (t Terms) proof(what string) string {
	secret := md5.Sum(join(text(t.User), text(t.Realm), text(t.Password))) //nolint:gosec // as above
	session := hash(join(secret[:], []byte(t.Nonce), []byte(t.ClientNonce)))
	return hash([]byte(strings.Join([]string{session, t.Nonce, Count, t.ClientNonce, Protection,
		hash([]byte(what))}, ":")))
}

// text encodes a text for the hash: in ISO 8859-1 if that can represent it, and in UTF-8
// otherwise (RFC 2831, 2.1.2.1).
func text(s string) []byte {
	latin := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return []byte(s)
		}
		latin = append(latin, byte(r))
	}
	return latin
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, []byte{':'}) }

func hash(b []byte) string {
	sum := md5.Sum(b) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// Quote returns a text as the value of a directive.
func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Parse parses a list of directives, name=value,name="value". If a name is repeated, the
// first one counts.
func Parse(text string) (map[string]string, error) {
	all := map[string]string{}
	for rest := strings.TrimLeft(text, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return nil, fmt.Errorf("%w: %.40q", errMalformed, rest)
		}
		value, behind, err := value(strings.TrimLeft(after, " \t"))
		if err != nil {
			return nil, err
		}
		if behind = strings.TrimLeft(behind, " \t"); behind != "" && behind[0] != ',' {
			return nil, fmt.Errorf("%w: %.40q", errMalformed, behind)
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := all[name]; !twice {
			all[name] = value
		}
		rest = behind
	}
	return all, nil
}

// value parses a value, quoted or not, and returns what follows it.
func value(s string) (value, behind string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("%w: a quote without an end", errMalformed)
}
