package zktest

import (
	"bytes"
	"io"
	"path"
	"slices"
)

func tryHandshake(w wire) {
	t, dial := w.t, w.dial
	zero := make([]byte, 16)
	least := int32(2 * w.tick.Milliseconds())
	most := 10 * least
	for _, test := range []struct{ asked, granted int32 }{{1, least}, {least, least}, {9000, 9000}, {1 << 30, most}, {-5, least}} {
		k := dial().hello(0, test.asked, 0, zero)
		if k.timeout != test.granted || k.session == 0 || len(k.password) != 16 || bytes.Equal(k.password, zero) {
			t.Errorf("asked for %d ms, got %+v", test.asked, k)
		}
		if k.rest != 0 {
			t.Errorf("an old client got %d bytes more than it knows", k.rest)
		}
	}
	if k := dial().hello(0, 10000, 0, zero, 0); k.rest != 1 {
		t.Errorf("a newer client got %d bytes for the read-only flag, want 1", k.rest)
	}
	one, two := dial().hello(0, 4000, 0, zero), dial().hello(0, 4000, 0, zero)
	if one.session == two.session {
		t.Errorf("two sessions are called %#x", one.session)
	}
}

func tryResume(w wire) {
	t, dial := w.t, w.dial
	first := dial()
	k := first.hello(0, 9000, 0, make([]byte, 16))
	p := first.create("/resume-", flagEphemeral|flagSequential)
	wrong := dial()
	if got := wrong.hello(0, 10000, k.session, make([]byte, 16)); got.session != 0 || got.timeout != 0 || !bytes.Equal(got.password, make([]byte, 16)) {
		t.Errorf("wrong password: %+v", got)
	}
	wrong.ended("wrong password")
	first.ended("the old connection, even though the password was wrong")
	unknown := dial()
	if got := unknown.hello(0, 10000, 12345, k.password); got.session != 0 {
		t.Errorf("unknown session: %+v", got)
	}
	unknown.ended("unknown session")
	second := dial()
	if got := second.hello(0, 10000, k.session, k.password); got.session != k.session || got.timeout != 10000 || !bytes.Equal(got.password, k.password) {
		t.Errorf("resumed as %+v, was %+v", got, k)
	}
	if a := second.call(OpExists, appendBool(appendString(nil, p), false)); a.code != ok {
		t.Errorf("the ephemeral: %v", a.code)
	}
	third := dial()
	third.hello(0, 10000, k.session, k.password)
	second.ended("replaced connection")
	if a := third.call(OpSync, appendString(nil, "/")); a.code != ok {
		t.Error(a.code)
	}
}

func tryFuture(w wire) {
	dial := w.dial
	r := dial()
	r.sendHello(1<<62, 10000, 0, make([]byte, 16))
	r.ended("a client that has seen more than the server")
}

func tryUnknownRequest(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	if a := r.call(999, nil); a.code != Unimplemented {
		t.Errorf("unknown request: %v", a.code)
	}
	r.ended("unknown request")
}

func tryMalformed(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	for _, op := range []Op{OpCreate, OpGetData, OpMulti} {
		if a := r.call(op, []byte{0, 0, 0, 9, 'x'}); a.code != MarshallingError {
			t.Errorf("%v cut short: %v", op, a.code)
		}
	}
	if a := r.call(OpMulti, appendPart(nil, OpGetData, false, -1)); a.code != MarshallingError {
		t.Errorf("a multi that reads: %v", a.code)
	}
	if a := r.call(OpSync, appendString(nil, "/")); a.code != ok {
		t.Errorf("afterwards: %v", a.code)
	}
}

func tryBadLength(w wire) {
	dial := w.dial
	for _, n := range []int32{-1, maxFrame + 1} {
		r := dial()
		r.hello(0, 10000, 0, make([]byte, 16))
		r.write(appendInt32(nil, n))
		r.ended("bad length")
	}
}

func tryCreate2(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	a := r.call(OpCreate2, createBody("/create2-", flagSequential|flagEphemeral))
	name, czxid := a.body.string(), a.body.int64()
	if a.code != ok || len(name) != len("/create2-0000000000") || czxid != a.zxid {
		t.Errorf("create2: %q, czxid %d, answer %+v", name, czxid, a)
	}
	if rest := len(a.body.buf); rest != 60 {
		t.Errorf("%d bytes of the stat follow its first field, want 60", rest)
	}
}

func tryContainerAnswer(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	dir := r.create("/box-", flagSequential)
	a := r.call(OpCreateContainer, createBody(dir+"/c", flagContainer))
	if a.code != ok || a.body.string() != dir+"/c" || len(a.body.buf) != 68 {
		t.Errorf("createContainer: %+v", a)
	}
	// The flag alone makes no container: the node is an ordinary one.
	if a := r.call(OpCreate, createBody(dir+"/d", flagContainer)); a.code != ok || a.body.string() != dir+"/d" {
		t.Errorf("create with the container flag: %+v", a)
	}
}

func part(op Op, body []byte) []byte { return append(appendPart(nil, op, false, -1), body...) }

func multiBody(parts ...[]byte) []byte {
	return appendPart(slices.Concat(parts...), opError, true, -1)
}

func tryMultiAnswer(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	dir := r.create("/multi-", flagSequential)
	a := r.call(OpMulti, multiBody())
	if want := appendPart(nil, opError, true, -1); a.code != ok || !bytes.Equal(a.body.buf, want) {
		t.Errorf("empty multi: %+v", a)
	}
	check := appendInt32(appendString(nil, dir), -1)
	a = r.call(OpMulti, multiBody(
		part(OpCreate, createBody(dir+"/a", 0)), part(OpCheck, check),
		part(OpCreate2, createBody(dir+"/b", 0)), part(OpCreateContainer, createBody(dir+"/c", flagContainer)),
		part(OpDelete, appendInt32(appendString(nil, dir+"/a"), -1))))
	var kinds []Op
	for d := a.body; d.err == nil; {
		kind, done := Op(d.int32()), d.bool()
		if d.int32(); done {
			break
		}
		kinds = append(kinds, kind)
		switch kind {
		case OpCreate:
			d.string()
		case OpCreate2:
			if d.string(); d.int64() != a.zxid {
				t.Error("a part has a zxid of its own")
			}
			d.take(60)
		}
	}
	if want := []Op{OpCreate, OpCheck, OpCreate, OpCreate2, OpDelete}; !slices.Equal(kinds, want) || a.body.err != nil || len(a.body.buf) != 0 {
		t.Errorf("parts %v, want %v (%v, %d bytes left)", kinds, want, a.body.err, len(a.body.buf))
	}
	a = r.call(OpMulti, multiBody(part(OpCheck, check), part(OpDelete, check), part(OpCheck, check)))
	var want []byte
	for _, code := range []Code{ok, NotEmpty, RuntimeInconsistency} {
		want = appendInt32(appendPart(want, opError, false, code), int32(code))
	}
	if want = appendPart(want, opError, true, -1); a.code != ok || !bytes.Equal(a.body.buf, want) {
		t.Errorf("failed multi: code %v, %v, want %v", a.code, a.body.buf, want)
	}
}

func tryEventFirst(w wire) {
	t, dial := w.t, w.dial
	a, b := dial(), dial()
	a.hello(0, 10000, 0, make([]byte, 16))
	b.hello(0, 10000, 0, make([]byte, 16))
	p := a.create("/first-", flagSequential)
	get := appendBool(appendString(nil, p), true)
	// Its own write: the event is in front of the answer.
	a.call(OpGetData, get)
	a.request(OpSetData, appendInt32(appendBytes(appendString(nil, p), []byte("1")), -1))
	e, answer := a.next(), a.next()
	if e.xid != -1 || e.zxid != -1 || answer.xid != a.xid {
		t.Fatalf("first %+v, then %+v", e, answer)
	}
	if kind, state := eventKind(e.body.int32()), e.body.int32(); kind != dataChanged || state != stateConnected || e.body.string() != p {
		t.Errorf("event %v in state %d", kind, state)
	}
	// Somebody else's write: the answer that shows it comes behind the event.
	a.call(OpGetData, get)
	b.call(OpSetData, appendInt32(appendBytes(appendString(nil, p), []byte("2")), -1))
	a.request(OpGetData, get)
	if e, answer := a.next(), a.next(); e.xid != -1 || string(answer.body.bytes()) != "2" {
		t.Errorf("first %+v, then %+v", e, answer)
	}
}

func trySetWatches(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	dir := r.create("/watches-", flagSequential)
	for _, name := range []string{"same", "changed", "parent"} {
		r.create(dir+"/"+name, 0)
	}
	since := r.call(OpSync, appendString(nil, "/")).zxid
	r.call(OpSetData, appendInt32(appendBytes(appendString(nil, dir+"/changed"), nil), -1))
	r.create(dir+"/parent/child", 0)
	at := func(names ...string) []string {
		for i := range names {
			names[i] = path.Join(dir, names[i])
		}
		return names
	}
	b := appendInt64(nil, since)
	b = appendStrings(b, at("same", "changed", "gone"))
	b = appendStrings(b, at("same", "never"))
	b = appendStrings(b, at("same", "parent", "gone2"))
	r.request(OpSetWatches, b)
	var got []event
	for {
		a := r.next()
		if a.xid == r.xid {
			break
		}
		kind := eventKind(a.body.int32())
		a.body.int32()
		got = append(got, event{kind, a.body.string()})
	}
	want := []event{
		{dataChanged, dir + "/changed"}, {nodeDeleted, dir + "/gone"}, {nodeCreated, dir + "/same"},
		{childrenChanged, dir + "/parent"}, {nodeDeleted, dir + "/gone2"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	// What had not changed is armed again.
	for _, step := range []struct {
		op   Op
		body []byte
		want event
	}{
		{OpCreate, createBody(dir+"/same/child", 0), event{childrenChanged, dir + "/same"}},
		{OpSetData, appendInt32(appendBytes(appendString(nil, dir+"/same"), nil), -1), event{dataChanged, dir + "/same"}},
		{OpCreate, createBody(dir+"/never", 0), event{nodeCreated, dir + "/never"}},
	} {
		r.request(step.op, step.body)
		e := r.next()
		kind := eventKind(e.body.int32())
		e.body.int32()
		if p := e.body.string(); e.xid != -1 || (event{kind, p}) != step.want {
			t.Fatalf("%v: %d %v %s, want %v", step.op, e.xid, kind, p, step.want)
		}
		r.next()
	}
}

func tryFourLetters(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.write([]byte("ruok"))
	if b, err := io.ReadAll(r); string(b) != "imok" {
		t.Errorf("got %q, %v", b, err)
	}
}

func tryClose(w wire) {
	t, dial := w.t, w.dial
	r, other := dial(), dial()
	k := r.hello(0, 10000, 0, make([]byte, 16))
	other.hello(0, 10000, 0, make([]byte, 16))
	p := r.create("/close-", flagSequential|flagEphemeral)
	if a := r.call(OpClose, nil); a.code != ok {
		t.Errorf("close: %v", a.code)
	}
	r.ended("close")
	if a := other.call(OpExists, appendBool(appendString(nil, p), false)); a.code != NoNode {
		t.Errorf("the ephemeral: %v", a.code)
	}
	if got := dial().hello(0, 10000, k.session, k.password); got.session != 0 {
		t.Errorf("a closed session was resumed: %+v", got)
	}
}

func tryNames(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	dir := r.create("/names-", flagSequential)
	for name, want := range map[string]Code{
		"":              BadArguments,
		"relative":      BadArguments,
		dir + "/.":      BadArguments,
		dir + "/..":     BadArguments,
		dir + "/":       BadArguments,
		dir + "//x":     NoNode, // the parent is looked up first
		dir + "/a\x00b": BadArguments,
		dir + "/a\x01b": BadArguments,
		dir + "/a\x7fb": BadArguments,
		dir + "/\uf000": BadArguments,
		dir + "/ü .x..": ok,
		"/zookeeper/x":  ok,
	} {
		if a := r.call(OpCreate, createBody(name, 0)); a.code != want {
			t.Errorf("create %q: %v, want %v", name, a.code, want)
		}
	}
	if a := r.call(OpDelete, appendInt32(appendString(nil, "/zookeeper/x"), -1)); a.code != ok {
		t.Error(a.code)
	}
	if a := r.call(OpGetData, appendBool(appendString(nil, "nowhere"), false)); a.code != NoNode {
		t.Errorf("reading asks for no valid name: %v", a.code)
	}
	if a := r.call(OpSetData, appendInt32(appendBytes(appendString(nil, "nowhere"), nil), -1)); a.code != BadArguments {
		t.Errorf("writing does: %v", a.code)
	}
}

func tryFlags(w wire) {
	t, dial := w.t, w.dial
	r := dial()
	r.hello(0, 10000, 0, make([]byte, 16))
	dir := r.create("/flags-", flagSequential)
	for flags, want := range map[int32]Code{7: BadArguments, -1: BadArguments, 5: Unimplemented, 6: Unimplemented} {
		if a := r.call(OpCreate, createBody(dir+"/x", flags)); a.code != want {
			t.Errorf("flags %d: %v, want %v", flags, a.code, want)
		}
	}
	if a := r.call(OpAuth, appendBytes(appendString(appendInt32(nil, 0), "digest"), []byte("a:b"))); a.code != ok || a.zxid != 0 {
		t.Errorf("auth: %+v", a)
	}
}
