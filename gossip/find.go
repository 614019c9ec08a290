package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

const (
	findTimeout       = 10 * time.Second // default of Config.FinderTimeout
	minRejoinInterval = time.Second      // first interval of a node that has found no other
	maxAddress        = 32               // addresses tried at the same time; an answer of one suffices to join
)

// List is a fixed list of addresses.
type List []string

// Find returns the list.
func (l List) Find(context.Context) ([]string, error) { return l, nil }

// String returns the list.
func (l List) String() string { return "list " + strings.Join(l, ",") }

// DNS resolves a name: SRV records if the name starts with "_", else addresses.
type DNS struct {
	Name     string
	Port     int           // for addresses without one
	Resolver *net.Resolver // nil is the machine's
}

// String describes the finder for logs.
func (d DNS) String() string { return "dns " + d.Name }

// Find resolves the name.
func (d DNS) Find(ctx context.Context) ([]string, error) {
	r := d.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	if strings.HasPrefix(d.Name, "_") {
		_, records, err := r.LookupSRV(ctx, "", "", d.Name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, fault.ErrUnavailable)
		}
		all := make([]string, 0, len(records))
		for _, s := range records {
			all = append(all, net.JoinHostPort(strings.TrimSuffix(s.Target, "."), strconv.Itoa(int(s.Port))))
		}
		return all, nil
	}
	hosts, err := r.LookupHost(ctx, d.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrUnavailable)
	}
	all := make([]string, 0, len(hosts))
	for _, h := range hosts {
		all = append(all, net.JoinHostPort(h, strconv.Itoa(d.Port)))
	}
	return all, nil
}

// NodeList finds nodes in the node list of the coordination store. It works even if all nodes of a fleet were restarted with other
// addresses.
type NodeList struct{ Nodes *primitive.Nodes }

// String describes the finder for logs.
func (NodeList) String() string { return "node list of the coordination store" }

// Find returns the addresses in the list, most recently seen first.
func (n NodeList) Find(ctx context.Context) ([]string, error) {
	nodes, err := n.Nodes.List(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b primitive.Node) int { return int(b.Seen - a.Seen) })
	var all []string
	for _, x := range nodes {
		if x.Gossip != "" {
			all = append(all, x.Gossip)
		}
	}
	return all, nil
}

// ParseFinder parses one --join value: host:port, host, dns:name[:port], or the AWS form "provider=aws tag_key=K tag_value=V [region=R]
// [port=N] [endpoint=URL]".
func ParseFinder(s string) (Finder, error) {
	switch {
	case strings.HasPrefix(s, "provider="):
		return parseCloud(s)
	case strings.HasPrefix(s, "dns:"):
		name, port, ok := strings.Cut(strings.TrimPrefix(s, "dns:"), ":")
		d := DNS{Name: name, Port: DefaultPort}
		if ok {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("--join %q: port %q: %w", s, port, fault.ErrConfig)
			}
			d.Port = int(n)
		}
		if d.Name == "" {
			return nil, fmt.Errorf("--join %q: want a name after dns: %w", s, fault.ErrConfig)
		}
		return d, nil
	case s == "" || strings.ContainsAny(s, " =/"):
		return nil, fmt.Errorf("--join %q: want host:port, dns:NAME or provider=aws tag_key=K tag_value=V: %w", s, fault.ErrConfig)
	}
	if _, _, err := net.SplitHostPort(s); err != nil {
		s = net.JoinHostPort(strings.Trim(s, "[]"), strconv.Itoa(DefaultPort))
	}
	if _, _, err := hostPort(s); err != nil {
		return nil, fmt.Errorf("--join %q: %w", s, err)
	}
	return List{s}, nil
}

// rejoinLoop searches for unknown nodes at growing intervals until ctx is done. It also reunites the halves of a fleet after a network
// partition.
func (g *Gossip) rejoinLoop(ctx context.Context) {
	for pause := minRejoinInterval; len(g.conf.Finders) > 0; {
		joined := g.joinMissing(ctx)
		if joined || g.memberCount() > 1 {
			pause = g.conf.RejoinInterval
		} else {
			pause = min(2*pause, g.conf.RejoinInterval)
		}
		if wait.For(ctx, pause/2+rand.N(pause)) != nil {
			return
		}
	}
}

// joinMissing runs every finder, joins the addresses of no live member, and reports whether any address answered.
func (g *Gossip) joinMissing(ctx context.Context) bool {
	var missing []string
	for _, f := range g.conf.Finders {
		missing = append(missing, g.runFinder(ctx, f)...)
	}
	limited, cancel := context.WithTimeout(ctx, g.conf.FinderTimeout)
	defer cancel()
	missing = g.withoutMembers(limited, missing)
	if len(missing) == 0 || ctx.Err() != nil {
		return false
	}
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	joined, err := g.list.Join(missing[:min(len(missing), maxAddress)])
	if err != nil && joined == 0 && g.memberCount() == 1 {
		g.log.Info("gossip join pending", "addresses", len(missing), "error", oneLine(err))
	}
	return joined > 0
}

// runFinder runs one finder with FinderTimeout, so that an unresponsive one cannot block the others.
func (g *Gossip) runFinder(ctx context.Context, f Finder) []string {
	limited, cancel := context.WithTimeout(ctx, g.conf.FinderTimeout)
	defer cancel()
	found, err := f.Find(limited)
	if err != nil && ctx.Err() == nil {
		g.log.Warn("finding gossip peers failed", "finder", f.String(), "error", err)
	}
	return found
}

// withoutMembers returns the addresses that belong neither to a live member nor to this node.
func (g *Gossip) withoutMembers(ctx context.Context, found []string) []string {
	alive := map[string]bool{}
	for _, n := range g.Members() {
		alive[n.Address] = true
	}
	var rest []string
	for _, a := range found {
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			continue
		}
		known := alive[a]
		if net.ParseIP(host) == nil && !known {
			ips, err := net.DefaultResolver.LookupHost(ctx, host)
			known = err == nil && slices.ContainsFunc(ips, func(ip string) bool { return alive[net.JoinHostPort(ip, port)] })
		}
		if !known && !slices.Contains(rest, a) {
			rest = append(rest, a)
		}
	}
	return rest
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(errors.Join(err).Error()), " ")
}
