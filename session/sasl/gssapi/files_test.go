package gssapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

func written(tb testing.TB, text string) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "file")
	eventstest.Must(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func keytabOf(tb testing.TB, principals ...string) (path string) {
	tb.Helper()
	table := keytab.New()
	for _, p := range principals {
		name, realm, _ := strings.Cut(p, "@")
		eventstest.Must(tb, table.AddEntry(name, realm, "secret", noon(), 1, etypeID.AES128_CTS_HMAC_SHA1_96))
	}
	bytes, err := table.Marshal()
	eventstest.Must(tb, err)
	return written(tb, string(bytes))
}

const conf = "[libdefaults]\n default_realm = ZKGRANT.TEST\n[domain_realm]\n .other.test = OTHER.TEST\n"

// TestBadInputIsToldAtOnce: the typed error names the file.
func TestBadInputIsToldAtOnce(t *testing.T) {
	missing, good := filepath.Join(t.TempDir(), "missing"), written(t, conf)
	keys := keytabOf(t, "bob@ZKGRANT.TEST", "app/host@OTHER.TEST")
	whole, err := os.ReadFile(keys)
	eventstest.Must(t, err)
	for _, c := range []struct {
		principal, keytab string
		options           []Option
		want              error
		says              string
	}{
		{"bob", keys, []Option{Config(missing)}, ErrConfig, missing + ": no such file"},
		{"bob", keys, []Option{Config(t.TempDir())}, ErrConfig, "is a directory"},
		{"bob", keys, []Option{Config(written(t, "[libdefaults]\n default_realm\n"))}, ErrConfig, "default_realm"},
		{"bob", keys, []Option{Config(written(t, "[realms]\n X = {\n  auth_to_local_names = {\n   a = b\n  }\n }\n"))}, ErrConfig, "malformed"},
		{"bob", keys, []Option{Config(written(t, ""))}, ErrConfig, "no default_realm"},
		{"bob", keys, []Option{Config(good), ServerPrincipal("zookeeper/")}, ErrConfig, `"zookeeper/" is not a principal`},
		{"bob", keys, []Option{Config(good), ServerPrincipal("")}, ErrConfig, `"" is not a principal`},
		{"", keys, []Option{Config(good)}, ErrCredentials, `"" is not a principal`},
		{"bob@", keys, []Option{Config(good)}, ErrCredentials, `"bob@" is not a principal`},
		{"bob@A@B", keys, []Option{Config(good)}, ErrCredentials, `"bob@A@B" is not a principal`},
		{"bob", missing, []Option{Config(good)}, ErrCredentials, missing + ": no such file"},
		{"bob", written(t, "no keytab"), []Option{Config(good)}, ErrCredentials, "it is not a keytab"},
		{"bob", written(t, string(whole[:20])), []Option{Config(good)}, ErrCredentials, "it is not a keytab"},
		{"bob", written(t, ""), []Option{Config(good)}, ErrCredentials, "it is not a keytab"},
		{"eve", keys, []Option{Config(good)}, ErrCredentials, "no key of eve@ZKGRANT.TEST, but of bob@ZKGRANT.TEST, app/host@OTHER.TEST"},
		{"app/host", keys, []Option{Config(good)}, ErrCredentials, "no key of app/host@ZKGRANT.TEST"},
	} {
		m, err := Keytab(c.principal, c.keytab, c.options...)
		eventstest.Expect(t, m == nil, "Keytab(%q) = %v", c.principal, m)
		wantError(t, fmt.Sprintf("Keytab(%q)", c.principal), err, c.says, c.want)
	}
	for _, good := range []string{"bob", "bob@ZKGRANT.TEST", "app/host@OTHER.TEST"} {
		_, err := Keytab(good, keys, Config(written(t, conf)))
		eventstest.ErrorIs(t, err, nil, "Keytab(%q)", good)
	}
}

func TestABadCacheIsToldAtOnce(t *testing.T) {
	missing, good := filepath.Join(t.TempDir(), "missing"), written(t, conf)
	for _, c := range []struct {
		path, variable string
		conf           string
		want           error
		says           string
	}{
		{missing, "", good, ErrCredentials, missing + ": no such file"},
		{"FILE:" + missing, "", good, ErrCredentials, "cache " + missing + ": no such file"},
		{"", missing, good, ErrCredentials, missing + ": no such file"},
		{"", "", good, ErrCredentials, fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())},
		{"", "KCM:0", good, ErrCredentials, "KCM:0, want one in a file"},
		{"KEYRING:persistent:0", "", good, ErrCredentials, "want one in a file"},
		{written(t, "no cache"), "", good, ErrCredentials, "Invalid credential cache"},
		{written(t, "\x05\x04\x00\x0c\x00\x01\x00\x08\x00"), "", good, ErrCredentials, "malformed"},
		{written(t, "\x05\x04\x00\x00\x00\x00\x00\x01\x00"), "", good, ErrCredentials, "malformed"},
		{missing, "", missing, ErrConfig, missing},
	} {
		t.Setenv("KRB5CCNAME", c.variable)
		m, err := CredentialCache(c.path, Config(c.conf))
		eventstest.Expect(t, m == nil, "CredentialCache(%q) = %v", c.path, m)
		wantError(t, fmt.Sprintf("CredentialCache(%q) with %q", c.path, c.variable), err, c.says, c.want)
	}
}

func TestKrb5ConfigIsTheDefault(t *testing.T) {
	keys := keytabOf(t, "bob@ZKGRANT.TEST")
	t.Setenv("KRB5_CONFIG", written(t, conf))
	_, err := Keytab("bob", keys)
	eventstest.ErrorIs(t, err, nil, "Keytab with the file that KRB5_CONFIG names")
}

// TestServersAreNamedByHost: no DNS query is made, and the realm is the host's.
func TestServersAreNamedByHost(t *testing.T) {
	keys := keytabOf(t, "bob@ZKGRANT.TEST")
	for _, c := range []struct{ principal, server, want string }{
		{"", "zk1.example.com:2181", "zookeeper/zk1.example.com@ZKGRANT.TEST"},
		{"", "ZK1.Example.com.:2181", "zookeeper/zk1.example.com@ZKGRANT.TEST"},
		{"", "10.0.0.1:2181", "zookeeper/10.0.0.1@ZKGRANT.TEST"},
		{"", "[::1]:2181", "zookeeper/::1@ZKGRANT.TEST"},
		{"", "zk1.other.test:2181", "zookeeper/zk1.other.test@OTHER.TEST"},
		{"zk/_HOST", "zk1:2181", "zk/zk1@ZKGRANT.TEST"},
		{"zk/_HOST.example.com@THIRD.TEST", "zk1:2181", "zk/zk1.example.com@THIRD.TEST"},
		{"zk/vip.other.test", "10.0.0.1:2181", "zk/vip.other.test@OTHER.TEST"},
		{"zk", "zk1:2181", "zk@ZKGRANT.TEST"},
	} {
		options := []Option{Config(written(t, conf))}
		if c.principal != "" {
			options = append(options, ServerPrincipal(c.principal))
		}
		m, err := Keytab("bob", keys, options...)
		eventstest.Must(t, err)
		p, err := m.(*mechanism).peer(t.Context(), c.server)
		eventstest.Must(t, err)
		eventstest.Equal(t, p.String(), c.want, "%s, named %q", c.server, c.principal)
	}
	m, err := Keytab("bob", keys, Config(written(t, conf)), CanonicalHost())
	eventstest.Must(t, err)
	p, err := m.(*mechanism).peer(t.Context(), "127.0.0.1:2181")
	eventstest.Expect(t, err == nil && !strings.Contains(p.String(), "127"), "127.0.0.1 is %v, %v", p, err)
}

// TestKeysStayOutOfLogs: a mechanism holds tickets with their keys.
func TestKeysStayOutOfLogs(t *testing.T) {
	_, e := newAcceptor(t, aes256)
	e.mechanism.keep(e.peer, e.ticket)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		eventstest.Equal(t, fmt.Sprintf(format, e.mechanism), "GSSAPI", "%s prints", format)
	}
}
