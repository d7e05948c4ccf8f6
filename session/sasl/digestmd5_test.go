package sasl_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/internal/digestmd5"
	"github.com/zkgrant/zkgrant/session/sasl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const challenge = `realm="zk-sasl-md5",nonce="abc",qop="auth",charset=utf-8,algorithm=md5-sess`

func begin(t *testing.T, user, password string) sasl.Exchange {
	t.Helper()
	e, err := sasl.DigestMD5(user, password).Start(t.Context(), "zk:2181")
	eventstest.Must(t, err)
	first, done, err := e.Next(nil)
	eventstest.Expect(t, first != nil && len(first) == 0 && !done && err == nil,
		"first %q, %v, %v", first, done, err)
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
	eventstest.Must(t, err)
	terms := digestmd5.Terms{User: user, Password: password, Realm: "zk-sasl-md5", Nonce: "abc", ClientNonce: said["cnonce"]}
	for key, want := range map[string]string{
		"username": user, "response": terms.Client(), "nonce": "abc", "digest-uri": digestmd5.URI,
	} {
		eventstest.Equal(t, said[key], want, "%s in the answer %s", key, answer)
	}
	eventstest.Expect(t, len(said["cnonce"]) >= 20, "the nonce %q can be guessed", said["cnonce"])
	last, done, err := e.Next([]byte("rspauth=" + terms.Server()))
	eventstest.Expect(t, last == nil && done && err == nil, "after the proof: %q, %v, %v", last, done, err)
}

// TestDigestMD5KnowsAStranger: the client recognizes a server that does not have the
// password, or has another mechanism.
func TestDigestMD5KnowsAStranger(t *testing.T) {
	for said, want := range map[string]error{
		"": sasl.ErrMechanism, "\x60\x82binary": sasl.ErrMechanism,
		`realm="zk-sasl-md5",qop="auth",algorithm=md5-sess`: sasl.ErrMechanism,
		strings.Replace(challenge, "md5-sess", "sha", 1):    sasl.ErrMechanism,
	} {
		_, _, err := begin(t, "a", "b").Next([]byte(said))
		eventstest.ErrorIs(t, err, want, "after the challenge %q", said)
	}
	for _, proof := range []string{"", "rspauth=", "rspauth=" + strings.Repeat("0", 32), "rspauth"} {
		e := begin(t, "a", "b")
		_, _, err := e.Next([]byte(challenge))
		eventstest.Must(t, err)
		_, _, err = e.Next([]byte(proof))
		eventstest.ErrorIs(t, err, sasl.ErrServer, "after the proof %q", proof)
	}
}

func TestDigestMD5KeepsThePassword(t *testing.T) {
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		said := fmt.Sprintf(format, sasl.DigestMD5("bob", "hush"))
		eventstest.Expect(t, !strings.Contains(said, "hush"), "%s prints %s", format, said)
	}
}

func TestDigestMD5RefusesWhatCannotBeSaid(t *testing.T) {
	ascii := strings.Replace(challenge, "charset=utf-8,", "", 1)
	answer, _, err := begin(t, "bob", "secret").Next([]byte(ascii))
	eventstest.Expect(t, err == nil && !strings.Contains(string(answer), "charset"),
		"to a server that takes no UTF-8 it says %s, %v; want it without a charset", answer, err)
	for _, c := range [][3]string{
		{"bob", "sécret", ascii}, {"a\xff", "b", challenge}, {"a", "b\xff", challenge}, {"", "b", challenge},
	} {
		_, _, err := begin(t, c[0], c[1]).Next([]byte(c[2]))
		eventstest.Expect(t, err != nil, "%q with %q is said to the challenge %s; want an error", c[0], c[1], c[2])
	}
}
