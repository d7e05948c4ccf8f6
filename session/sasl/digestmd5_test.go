package sasl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/session/internal/digestmd5"
	"github.com/zkgrant/zkgrant/session/sasl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const challenge = `realm="zk-sasl-md5",nonce="abc",qop="auth",charset=utf-8,algorithm=md5-sess`

// begin returns an exchange that waits for the challenge.
func begin(t *testing.T, user, password string) sasl.Exchange {
	t.Helper()
	e, err := sasl.DigestMD5(user, password).Start(t.Context(), "zk:2181")
	if err != nil {
		t.Fatal(err)
	}
	if first, done, err := e.Next(nil); first == nil || len(first) > 0 || done || err != nil {
		t.Fatalf("at first %q is said, %v, %v; want an empty token", first, done, err)
	}
	return e
}

func TestDigestMD5(t *testing.T) {
	const user, password = `a "b"\c`, "sécret, Ł"
	e := begin(t, user, password)
	answer, done, err := e.Next([]byte(challenge))
	if done || err != nil {
		t.Fatalf("after the challenge: %v, %v; want it to go on", done, err)
	}
	said, err := digestmd5.Parse(string(answer))
	if err != nil {
		t.Fatal(err)
	}
	terms := digestmd5.Terms{User: user, Password: password, Realm: "zk-sasl-md5", Nonce: "abc", ClientNonce: said["cnonce"]}
	if said["username"] != user || said["response"] != terms.Client() || said["nonce"] != "abc" || said["digest-uri"] != digestmd5.URI {
		t.Errorf("the answer is %s; want the proof %s", answer, terms.Client())
	}
	if len(said["cnonce"]) < 20 {
		t.Errorf("the nonce %q can be guessed", said["cnonce"])
	}
	if last, done, err := e.Next([]byte("rspauth=" + terms.Server())); last != nil || !done || err != nil {
		t.Errorf("after the server's proof: %q, %v, %v; want it to be done", last, done, err)
	}
}

// TestDigestMD5KnowsAStranger: a server that does not have the password, or has another protocol.
func TestDigestMD5KnowsAStranger(t *testing.T) {
	for said, want := range map[string]error{
		"": sasl.ErrMechanism, "\x60\x82binary": sasl.ErrMechanism,
		`realm="zk-sasl-md5",qop="auth",algorithm=md5-sess`: sasl.ErrMechanism,
		strings.Replace(challenge, "md5-sess", "sha", 1):    sasl.ErrMechanism,
	} {
		if answer, _, err := begin(t, "a", "b").Next([]byte(said)); !errors.Is(err, want) {
			t.Errorf("to the challenge %q it says %q, %v; want %v", said, answer, err, want)
		}
	}
	for _, proof := range []string{"", "rspauth=", "rspauth=" + strings.Repeat("0", 32), "rspauth"} {
		e := begin(t, "a", "b")
		if _, _, err := e.Next([]byte(challenge)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.Next([]byte(proof)); !errors.Is(err, sasl.ErrServer) {
			t.Errorf("the proof %q: %v, want %v", proof, err, sasl.ErrServer)
		}
	}
}

// TestDigestMD5KeepsThePassword out of printed text.
func TestDigestMD5KeepsThePassword(t *testing.T) {
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if said := fmt.Sprintf(format, sasl.DigestMD5("bob", "hush")); strings.Contains(said, "hush") {
			t.Errorf("%s prints %s", format, said)
		}
	}
}

func TestDigestMD5RefusesWhatCannotBeSaid(t *testing.T) {
	ascii := strings.Replace(challenge, "charset=utf-8,", "", 1)
	if _, _, err := begin(t, "bob", "sécret").Next([]byte(ascii)); err == nil {
		t.Error("a password with a letter beyond ASCII is said to a server that takes no UTF-8; want an error")
	}
	if answer, _, err := begin(t, "bob", "secret").Next([]byte(ascii)); err != nil || strings.Contains(string(answer), "charset") {
		t.Errorf("to a server that takes no UTF-8 it says %s, %v; want it without a charset", answer, err)
	}
	for _, c := range [][2]string{{"a\xff", "b"}, {"a", "b\xff"}, {"", "b"}} {
		if _, _, err := begin(t, c[0], c[1]).Next([]byte(challenge)); err == nil {
			t.Errorf("%q with %q is said; want an error", c[0], c[1])
		}
	}
}
