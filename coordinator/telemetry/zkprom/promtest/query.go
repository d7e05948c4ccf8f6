package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Series is what one time series of an answer consists of.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Query evaluates an expression now: each series has one point.
func (s *Server) Query(ctx context.Context, expr string) ([]Series, error) {
	return s.query(ctx, "/api/v1/query?"+url.Values{"query": {expr}}.Encode())
}

// QueryRange evaluates an expression at each step of a time.
func (s *Server) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	return s.query(ctx, "/api/v1/query_range?"+url.Values{
		"query": {expr}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}.Encode())
}

func stamp(at time.Time) string {
	const digits = 3
	return strconv.FormatFloat(float64(at.UnixMilli())/float64(time.Second/time.Millisecond), 'f', digits, 64)
}

func (s *Server) query(ctx context.Context, path string) ([]Series, error) {
	text, err := s.get(ctx, path)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  point
				Values []point
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("promtest: %s: %w", path, err)
	}
	all := make([]Series, 0, len(answer.Data.Result))
	for _, r := range answer.Data.Result {
		one := Series{Labels: r.Metric}
		for _, p := range append(r.Values, r.Value) {
			if !p.At.IsZero() {
				one.Points = append(one.Points, Point(p))
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// point is a Point as Prometheus writes it: [seconds, "value"].
type point Point

func (p *point) UnmarshalJSON(text []byte) error {
	var seconds float64
	var value string
	if err := json.Unmarshal(text, &[]any{&seconds, &value}); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(value, 64)
	p.At, p.Value = time.UnixMilli(int64(seconds*float64(time.Second/time.Millisecond))), v
	return err
}
