package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// frameOf puts the length in front of a body.
func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// splitAll feeds stream in pieces of the given sizes, over and over, and returns the heads in the order of the marks.
func splitAll(t *testing.T, s *splitter, stream []byte, sizes []byte) (headed, ended [][]byte, err error) {
	t.Helper()
	for i := 0; len(stream) > 0; i++ {
		size := 1
		if len(sizes) > 0 {
			size = max(1, int(sizes[i%len(sizes)]))
		}
		piece := stream[:min(size, len(stream))]
		stream = stream[len(piece):]
		for {
			n, m, err := s.next(piece)
			if err != nil {
				return headed, ended, err
			}
			piece = piece[n:]
			head := bytes.Clone(s.head[:min(s.length, headSize)])
			switch m {
			case markHeaded:
				headed = append(headed, head)
			case markEnded:
				ended = append(ended, head)
			case markMore:
				if len(piece) != 0 {
					t.Fatalf("%d bytes are left behind, want the splitter to take all", len(piece))
				}
			default:
				t.Fatalf("the splitter says mark %d, want headed, ended or more", m)
			}
			if m == markMore {
				break
			}
		}
	}
	return headed, ended, nil
}

func TestSplitterFindsFramesInAnyPieces(t *testing.T) {
	var stream []byte
	var want [][]byte
	for _, size := range []int{0, 1, 8, headSize - 1, headSize, headSize + 1, 300} {
		body := bytes.Repeat([]byte{byte(size)}, size)
		stream = append(stream, frameOf(body)...)
		want = append(want, body[:min(size, headSize)])
	}
	for size := 1; size < 256; size++ {
		s := &splitter{max: 1000}
		headed, ended, err := splitAll(t, s, stream, []byte{byte(size)})
		eventstest.Must(t, err)
		if len(headed) != len(want) || len(ended) != len(want) {
			t.Fatalf("pieces of %d: %d heads and %d ends, want %d", size, len(headed), len(ended), len(want))
		}
		for i := range want {
			if !bytes.Equal(headed[i], want[i]) || !bytes.Equal(ended[i], want[i]) {
				t.Fatalf("pieces of %d: frame %d has head %x, later %x; want %x", size, i, headed[i], ended[i], want[i])
			}
		}
		if !s.between() {
			t.Fatalf("pieces of %d: in a frame at the end, want between two", size)
		}
	}
}

func TestSplitterHoldsTheBounds(t *testing.T) {
	for _, c := range []struct {
		length uint32
		ok     bool
	}{
		{15, false}, {16, true}, {64 << 20, true}, {64<<20 + 1, false}, {math.MaxInt32, false},
		{math.MaxInt32 + 1, false}, {math.MaxUint32, false}, {0, false},
	} {
		s := &splitter{min: minReply, max: maxFrame}
		_, _, err := s.next(binary.BigEndian.AppendUint32(nil, c.length))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errFrameLength) {
			t.Errorf("length %d: %v, want accepted %v", c.length, err, c.ok)
		}
	}
}

// FuzzSplitter compares the splitter, fed in pieces, with a reader that has everything at once.
func FuzzSplitter(f *testing.F) {
	f.Add(frameOf([]byte("0123456789abcdef")), []byte{3})
	f.Add(append(frameOf(nil), frameOf(make([]byte, 40))...), []byte{1, 5, 200})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, []byte{2})
	f.Fuzz(func(t *testing.T, stream, sizes []byte) {
		const lo, hi = 2, 500
		var want [][]byte
		bad := false
		rest := stream
		for len(rest) >= 4 {
			n := int64(int32(binary.BigEndian.Uint32(rest)))
			if n < lo || n > hi {
				bad = true
				break
			}
			if int64(len(rest)-4) < n {
				break
			}
			want = append(want, rest[4:4+min(n, headSize)])
			rest = rest[4+n:]
		}
		_, ended, err := splitAll(t, &splitter{min: lo, max: hi}, stream, sizes)
		if (err != nil) != bad {
			t.Fatalf("error %v, want one: %v", err, bad)
		}
		if len(ended) != len(want) {
			t.Fatalf("%d frames, want %d", len(ended), len(want))
		}
		for i := range want {
			if !bytes.Equal(ended[i], want[i]) {
				t.Fatalf("frame %d: %x, want %x", i, ended[i], want[i])
			}
		}
	})
}
