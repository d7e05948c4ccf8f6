package zkerr

// Sentinel returns an error with a text of its own, which is each of the others as well for errors.Is.
func Sentinel(text string, others ...error) error { return &sentinel{text, others} }

type sentinel struct {
	text   string
	others []error
}

func (s *sentinel) Error() string { return s.text }

func (s *sentinel) Unwrap() []error { return s.others }
