package rebuild

import (
	"slices"
	"unicode/utf16"
)

/*
OpenSearch writes the members of an object in the order of the map that holds them in its mapping, a hash trie:

	inner node  up to 64 slots, chosen by the next 6 bits of the hash from the low end; a slot holds one name or a node
	leaf        after the last of the 32 bits: names with the same hash, as they were added (a mapping is read by name)

The names of a node come first, by slot, then the names of the nodes below it, level by level.
*/
const (
	trieBits  = 6
	trieDepth = 6 // levels that 32 bits make
)

// hashOrder sorts the members of an object and of all objects below it in the order in which OpenSearch writes them.
func (n *node) hashOrder() {
	n.children = trieOrder(n.children)
	for _, c := range n.children {
		c.hashOrder()
	}
}

// trieOrder returns nodes, which must be sorted by name, in the order of the trie.
func trieOrder(all []*node) []*node {
	type group struct {
		members []*node
		depth   int
	}
	ordered := make([]*node, 0, len(all))
	for queue := []group{{all, 0}}; len(queue) > 0; queue = queue[1:] {
		g := queue[0]
		if g.depth == trieDepth {
			ordered = append(ordered, g.members...)
			continue
		}
		var slots [1 << trieBits][]*node
		for _, m := range g.members {
			slot := javaHash(m.leaf) >> (trieBits * g.depth) & (1<<trieBits - 1)
			slots[slot] = append(slots[slot], m)
		}
		for _, members := range slots {
			switch len(members) {
			case 0:
			case 1:
				ordered = append(ordered, members[0])
			default:
				queue = append(queue, group{members, g.depth + 1})
			}
		}
	}
	return slices.Clip(ordered)
}

// javaHash returns the hash of a string as Java computes it.
func javaHash(s string) uint32 {
	var h uint32
	for _, c := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(c)
	}
	return h
}
