package doctor

// Findings judges what was seen of a node alone, which may be printed before all of the
// tree was seen. [Findings] has the same, and more.
func (n Node) Findings() []Finding {
	if n.Refusal != "" {
		return nil
	}
	return n.findings()
}
