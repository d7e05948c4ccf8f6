package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// headSize is how much of each frame's body the splitter keeps: enough for the session id in a handshake request, the last field
	// that is read.
	headSize = 24
	// maxFrame is the longest frame a server may send. The client allocates whatever a length field says.
	maxFrame = 64 << 20
	// maxHandshake is the longest handshake reply; real ones have 36 or 37 bytes. It is far lower than maxFrame so that a server with
	// another protocol is recognised at once.
	maxHandshake = 64 << 10
	// minRequest is the length of a request without a body: xid, operation.
	minRequest = 8
	// minReply is the length of a reply without a body: xid, zxid, error. The client panics on anything shorter.
	minReply = 16
	// minHandshakeRequest reaches to the end of the session id, minHandshakeReply likewise.
	minHandshakeRequest = 24
	minHandshakeReply   = 16
)

// errFrameLength is wrapped by the error for a frame of which the length field cannot be right.
var errFrameLength = errors.New("frame length out of bounds")

// mark says why the splitter stopped consuming.
type mark uint8

const (
	markMore   mark = iota + 1 // everything is consumed, and the frame goes on
	markHeaded                 // the head of the frame is complete
	markEnded                  // the frame is complete
)

// splitter finds the frames in a stream of ZooKeeper's wire format, a four-byte length followed by that many bytes, in pieces of any
// size. It keeps only the head of the current frame. The zero value is not ready: set min and max.
type splitter struct {
	min, max int // bounds for the length field; may be changed between frames

	prefix  [4]byte
	prefixN int
	length  int // of the current frame; valid once the prefix is complete
	got     int // bytes of the body seen
	head    [headSize]byte
	headed  bool // markHeaded has been returned for this frame
	reset   bool // markEnded has been returned: the next call starts a frame
}

// next consumes bytes of p up to the next mark and returns how many. For each frame it returns markHeaded once and then markEnded once;
// markMore comes when p is used up. After markEnded the head stays readable until the next call. An error is final.
func (s *splitter) next(p []byte) (int, mark, error) {
	if s.reset {
		s.prefixN, s.length, s.got, s.headed, s.reset = 0, 0, 0, false, false
	}
	used := 0
	if s.prefixN < len(s.prefix) {
		used = copy(s.prefix[s.prefixN:], p)
		s.prefixN += used
		if s.prefixN < len(s.prefix) {
			return used, markMore, nil
		}
		length := int64(int32(binary.BigEndian.Uint32(s.prefix[:])))
		if length < int64(s.min) || length > int64(s.max) {
			return used, markMore, fmt.Errorf("%w: %d, want %d to %d", errFrameLength, length, s.min, s.max)
		}
		s.length = int(length)
	}
	if !s.headed {
		want := min(s.length, headSize)
		n := copy(s.head[s.got:want], p[used:])
		used += n
		s.got += n
		if s.got < want {
			return used, markMore, nil
		}
		s.headed = true
		return used, markHeaded, nil
	}
	n := min(len(p)-used, s.length-s.got)
	used += n
	s.got += n
	if s.got < s.length {
		return used, markMore, nil
	}
	s.reset = true
	return used, markEnded, nil
}

// between reports whether the stream stands between two frames.
func (s *splitter) between() bool {
	return s.reset || s.prefixN == 0
}

// int32At and int64At read a field of the head. The caller knows from min that the frame is long enough.
func (s *splitter) int32At(offset int) int32 {
	return int32(binary.BigEndian.Uint32(s.head[offset:]))
}

func (s *splitter) int64At(offset int) int64 {
	return int64(binary.BigEndian.Uint64(s.head[offset:]))
}

// stringAt reads a string that begins in the head. rest is what follows the head of this frame. It returns an empty string if the two do
// not have all of it.
func (s *splitter) stringAt(offset int, rest []byte) string {
	length := int(s.int32At(offset))
	begin := offset + prefixLength
	if length <= 0 || begin+length > s.length || begin+length > s.got+len(rest) {
		return ""
	}
	head := s.head[begin:s.got]
	if length <= len(head) {
		return string(head[:length])
	}
	return string(head) + string(rest[:length-len(head)])
}
