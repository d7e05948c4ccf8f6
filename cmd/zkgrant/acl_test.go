//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

func TestAccessLists(t *testing.T) {
	for list, want := range map[string]string{
		"world":                             "[{31 world anyone}]",
		"creator":                           "[{31 auth }]",
		"world:anyone:r":                    "[{1 world anyone}]",
		"auth::cdrwa,world:anyone:r":        "[{31 auth } {1 world anyone}]",
		"digest:ann:a+b/c=:cdrw":            "[{15 digest ann:a+b/c=}]",
		"ip:10.0.0.0/8:rr":                  "[{1 ip 10.0.0.0/8}]",
		"ip:fe80::1:r,sasl:app/h@R:dar":     "[{1 ip fe80::1} {25 sasl app/h@R}]",
		"x509:CN=app,O=a:b,C=c:ra,sasl:z:c": "[{17 x509 CN=app,O=a:b,C=c} {4 sasl z}]",
		"":                                  "",
		"world:anyone":                      "",
		"world:anyone:":                     "",
		"world:anyone:x":                    "",
		"world:anyone:rx":                   "",
		":anyone:r":                         "",
		"world:anyone:r,":                   "",
		",world:anyone:r":                   "",
		"world:anyone:r,x":                  "",
		"creator,world":                     "",
	} {
		acl, err := parseACL(list)
		if got := fmt.Sprint(acl); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q is %s, %v; want %q", list, got, err, want)
		}
	}
}

// listed returns the access list of a node, as its owner sees it.
func listed(t *testing.T, servers, node string) string {
	t.Helper()
	conn, _, err := zk.Connect(strings.Split(servers, ","), 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	eventstest.Must(t, err)
	defer conn.Close()
	eventstest.Must(t, conn.AddAuth("digest", []byte("ann:secret")))
	acl, _, err := conn.GetACL(node)
	eventstest.Must(t, err)
	return fmt.Sprint(acl)
}

// The access list is for every node that is made, parents included. With an identity and without
// a list there is one warning.
func TestTheNodesHaveTheAccessList(t *testing.T) {
	t.Parallel()
	checkAccess(t, zktest.Start(t).Addr(), "/zkgrant")
}

// The same on real servers.
func testRealAccess(t *testing.T, e *ensemble.Ensemble) { checkAccess(t, e.Connect(), "/access") }

func checkAccess(t *testing.T, servers, root string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "identities")
	eventstest.Must(t, os.WriteFile(file, []byte("digest:ann:secret\n"), 0o600))
	const warning = "every client may delete the nodes of the lock"
	ann := zk.DigestACL(zk.PermAll, "ann", "secret")[0]
	for flags, want := range map[string]string{
		"--auth-file FILE --acl creator":                    fmt.Sprint([]zk.ACL{ann}),
		"--auth-file FILE --acl auth::cdrwa,world:anyone:r": fmt.Sprint([]zk.ACL{ann, {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}),
		"--auth-file FILE --acl world":                      fmt.Sprint(zk.WorldACL(zk.PermAll)),
		"--auth-file FILE":                                  fmt.Sprint(zk.WorldACL(zk.PermAll)),
		"":                                                  fmt.Sprint(zk.WorldACL(zk.PermAll)),
	} {
		lock := fmt.Sprint(root, len(flags), "/lock")
		line := append(strings.Fields(strings.ReplaceAll("run --detect-crash "+flags, "FILE", file)), "--servers", servers, lock)
		run := begin(t, "", append(line, "--", "sh", "-c", `echo "node $ZKGRANT_NODE ready"; exec sleep 600`)...)
		run.Await(t, " ready", 1)
		node, _, _ := strings.Cut(run.String()[strings.Index(run.String(), "node ")+len("node "):], " ready")
		for _, at := range []string{filepath.Dir(lock), lock, node, lock + ".holder"} {
			if got := listed(t, servers, at); got != want {
				t.Errorf("%q: %s has the access list %s, want %s", flags, at, got, want)
			}
		}
		run.Send(syscall.SIGTERM)
		run.Exits(codeSignal + int(syscall.SIGTERM))
		if got, warned := run.Count(warning), flags == "--auth-file FILE"; got > 1 || got == 1 != warned {
			t.Errorf("%q: it warns %d times, want one warning: %t\n%s", flags, got, warned, run)
		}
	}
	for flags, word := range map[string]string{
		"--acl creator":                        "--acl creator: want an identity",
		"--acl world:anyone:x":                 "--acl world:anyone:x: want world, creator, or scheme:id:perms",
		"--auth-file FILE --acl world:other:r": "the servers refuse the access control list",
	} {
		line := append(strings.Fields(strings.ReplaceAll("run "+flags, "FILE", file)), "--servers", servers, root+"/wrong", "--", "true")
		run := begin(t, "", line...)
		run.Exits(codeFailed)
		run.Must(t, word)
	}
}
