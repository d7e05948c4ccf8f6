// Package kdctest runs real KDCs, MIT's krb5kdc, for tests.
package kdctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// KDC is the KDC of a realm. It listens on loopback, and is stopped and removed when the
// test ends.
type KDC struct {
	Realm string

	tb       testing.TB
	programs programs
	folder   string
	port     int
	others   []*KDC // their realms are in its krb5.conf
	process  *eventstest.Process
}

// Start starts the KDC of a realm. Without the programs, the test is skipped, or fails if
// real servers are required.
func Start(tb testing.TB, realm string) *KDC {
	tb.Helper()
	found, err := find()
	if err != nil {
		if os.Getenv("ZKGRANT_REAL") == "1" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	port, err := ensemble.FreePort()
	eventstest.Must(tb, err)
	k := &KDC{Realm: realm, tb: tb, programs: found, folder: tb.TempDir(), port: port}
	k.write()
	k.run("kdb5_util", "create", "-s", "-P", "master")
	k.Go()
	return k
}

// Config returns the path of the KDC's krb5.conf.
func (k *KDC) Config() string { return k.path("krb5.conf") }

// Addr returns the address on which the KDC listens.
func (k *KDC) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(k.port)) }

func (k *KDC) path(name string) string { return filepath.Join(k.folder, name) }

// Go starts the KDC, also again after Stop.
func (k *KDC) Go() {
	k.tb.Helper()
	cmd := k.command("krb5kdc", "-n")
	ensemble.DieWithParent(cmd)
	k.process = eventstest.Begin(k.tb, cmd)
	eventstest.Eventually(k.tb, "the KDC listens", func() bool {
		conn, err := net.DialTimeout("tcp", k.Addr(), time.Second)
		return err == nil && conn.Close() == nil
	}, k.process.String)
}

// Stop ends the KDC.
func (k *KDC) Stop() {
	k.tb.Helper()
	k.process.Send(syscall.SIGTERM)
	k.process.Exits(0)
}

// Add adds a principal with a random key and the given addprinc options. It returns a
// keytab with the key.
func (k *KDC) Add(principal string, options ...string) (keytab string) {
	k.tb.Helper()
	k.Admin("addprinc -randkey %s %s", strings.Join(options, " "), principal)
	return k.Keytab(principal)
}

// Keytab makes a keytab with the principal's current key.
func (k *KDC) Keytab(principal string) string {
	k.tb.Helper()
	path := k.path(fmt.Sprintf("%d.keytab", rand.Uint64()))
	k.Admin("ktadd -norandkey -k %s %s", path, principal)
	return path
}

// Admin runs a command of kadmin.local.
func (k *KDC) Admin(format string, args ...any) {
	k.tb.Helper()
	query := fmt.Sprintf(format, args...)
	if said := k.run("kadmin.local", "-q", query); strings.Contains(said, "kadmin.local: ") || strings.Contains(said, " while ") {
		k.tb.Fatalf("kadmin.local %s: %s", query, said)
	}
}

// Kinit stores tickets in a cache, using the key in a keytab.
func (k *KDC) Kinit(cache, principal, keytab string, options ...string) {
	k.tb.Helper()
	k.run("kinit", append(append([]string{"-c", cache, "-k", "-t", keytab}, options...), principal)...)
}

// Trust makes the two realms trust each other: clients of either get tickets for the
// servers of both. Hosts below the domain belong to the other realm.
func (k *KDC) Trust(other *KDC, domain string) {
	k.tb.Helper()
	for _, at := range []*KDC{k, other} {
		at.Admin("addprinc -pw trust krbtgt/%s@%s", other.Realm, k.Realm)
		at.Admin("addprinc -pw trust krbtgt/%s@%s", k.Realm, other.Realm)
	}
	k.others, other.others = append(k.others, other), append(other.others, k)
	k.write()
	other.write()
	f, err := os.OpenFile(k.Config(), os.O_APPEND|os.O_WRONLY, 0)
	eventstest.Must(k.tb, err)
	_, err = fmt.Fprintf(f, "[domain_realm]\n %s = %s\n", domain, other.Realm)
	eventstest.Must(k.tb, errors.Join(err, f.Close()))
}

// write writes the KDC's configuration.
func (k *KDC) write() {
	k.tb.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "[libdefaults]\n default_realm = %s\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n udp_preference_limit = 1\n", k.Realm)
	b.WriteString("[realms]\n")
	for _, r := range append([]*KDC{k}, k.others...) {
		fmt.Fprintf(&b, " %s = {\n  kdc = %s\n }\n", r.Realm, r.Addr())
	}
	if k.programs.modules != "" {
		fmt.Fprintf(&b, "[dbmodules]\n db_module_dir = %s\n", k.programs.modules)
	}
	eventstest.Must(k.tb, os.WriteFile(k.Config(), []byte(b.String()), 0o600))
	profile := fmt.Sprintf("[realms]\n %s = {\n  kdc_listen = %s\n  kdc_tcp_listen = %s\n  database_name = %s\n  key_stash_file = %s\n  max_renewable_life = 1d\n }\n[logging]\n kdc = FILE:%s\n",
		k.Realm, k.Addr(), k.Addr(), k.path("principal"), k.path("stash"), k.path("kdc.log"))
	eventstest.Must(k.tb, os.WriteFile(k.path("kdc.conf"), []byte(profile), 0o600))
}

// Log returns what the KDC has logged.
func (k *KDC) Log() string {
	k.tb.Helper()
	text, err := os.ReadFile(k.path("kdc.log"))
	eventstest.Must(k.tb, err)
	return string(text)
}

func (k *KDC) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(k.programs.path(program), args...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+k.Config(), "KRB5_KDC_PROFILE="+k.path("kdc.conf"), "LC_ALL=C")
	if k.programs.libraries != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+k.programs.libraries)
	}
	return cmd
}

func (k *KDC) run(program string, args ...string) (said string) {
	k.tb.Helper()
	out, err := k.command(program, args...).CombinedOutput()
	if err != nil {
		k.tb.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// programs are the folders of MIT Kerberos.
type programs struct{ folder, libraries, modules string }

func (p programs) path(program string) string {
	if p.folder != "" {
		return filepath.Join(p.folder, program)
	}
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return path
		}
	}
	return ""
}

var errNone = errors.New("no KDC: run `make deps`, or install MIT's krb5kdc, kadmin.local, kdb5_util and kinit")

// find looks in PATH, /usr/sbin and /sbin, and then in the project's .deps.
func find() (programs, error) {
	var p programs
	missing := false
	for _, program := range [...]string{"krb5kdc", "kadmin.local", "kdb5_util", "kinit"} {
		missing = missing || p.path(program) == ""
	}
	if !missing {
		return p, nil
	}
	deps, err := ensemble.Deps()
	if err != nil {
		return p, err
	}
	home := filepath.Join(deps, "krb5")
	if _, err := os.Stat(filepath.Join(home, "bin", "krb5kdc")); deps == "" || err != nil {
		return p, errNone
	}
	return programs{filepath.Join(home, "bin"), filepath.Join(home, "lib"), filepath.Join(home, "kdb")}, nil
}
