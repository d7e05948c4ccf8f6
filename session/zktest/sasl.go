package zktest

import (
	"crypto/rand"
	"fmt"

	"github.com/zkgrant/zkgrant/session/internal/digestmd5"
)

// This file is the server's side of SASL DIGEST-MD5, as in ZooKeeper's DigestLoginModule.

// realm is the realm of every ZooKeeper server.
const realm = "zk-sasl-md5"

// AddUser adds a user, for SASL DIGEST-MD5 and for access lists with the scheme sasl. It
// replaces a user with that name. Authenticated connections stay authenticated.
func (s *Server) AddUser(name, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		s.users = map[string]string{}
	}
	s.users[name] = password
}

// negotiate handles one step of the exchange: a request for a challenge, or the answer to
// one.
func (s *Server) negotiate(c *conn, q call) answer {
	switch {
	case len(s.users) == 0: // a real server without SASL sends an empty answer, and continues
		return answer{reply: appendBytes(newReply(), nil), stamp: stampZero}
	case len(q.data) == 0:
		c.nonce = rand.Text()
		challenge := fmt.Sprintf("realm=%s,nonce=%s,qop=%s,charset=utf-8,algorithm=md5-sess",
			digestmd5.Quote(realm), digestmd5.Quote(c.nonce), digestmd5.Quote(digestmd5.Protection))
		return answer{reply: appendBytes(newReply(), []byte(challenge)), stamp: stampZero}
	}
	said, err := digestmd5.Parse(string(q.data))
	password, known := s.users[said["username"]]
	terms := digestmd5.Terms{
		User: said["username"], Password: password, Realm: realm, Nonce: c.nonce, ClientNonce: said["cnonce"],
	}
	c.nonce = ""
	if err != nil || !known || digestmd5.Allowed() != nil || terms.Nonce == "" || said["nonce"] != terms.Nonce || said["realm"] != realm || said["nc"] != digestmd5.Count ||
		said["digest-uri"] != digestmd5.URI || said["response"] != terms.Client() {
		return answer{code: AuthFailed, hangUp: true, stamp: stampZero}
	}
	c.addIdentity(identity{"sasl", terms.User})
	return answer{reply: appendBytes(newReply(), []byte("rspauth="+terms.Server())), stamp: stampZero}
}
