// Package gossip keeps the membership of a fleet: which nodes are alive, their addresses, and short notes with a time to live. Nothing
// learned here grants, extends, completes or skips work.
package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// DefaultPort is the TCP and UDP port of gossip.
const DefaultPort = 7946

// Config identifies this node and configures how it finds the others.
type Config struct {
	Fleet          string // label of every packet; fleets with different labels never merge
	Name           string // of this node; unique over all nodes and restarts (host and boot)
	Bind           string // host:port; port 0 selects a free port; "" is loopback with DefaultPort
	Port           *Port  // the open port of Bind, which Start takes over; nil: Start opens it
	Advertise      string // host:port at which other nodes reach this node; "" is Bind
	Keys           Keys   // may be empty only on loopback
	Meta           Meta
	Finders        []Finder      // queried in turn until a node answers, and again when nodes are missing
	RejoinInterval time.Duration // between searches for missing nodes; 0 is 30 s
	FinderTimeout  time.Duration // of one finder; 0 is 10 s
	// Quick shortens the failure detector for nodes on one machine (tests, a laptop).
	Quick bool
	Log   *slog.Logger
}

// Finder looks up addresses (host:port) where nodes may be.
type Finder interface {
	// Find returns addresses; dead addresses and this node's own are ignored.
	Find(ctx context.Context) ([]string, error)
	// String names the finder in logs.
	String() string
}

// Member is a node that the failure detector considers alive.
type Member struct {
	Name    string
	Address string // host:port of its gossip
	Meta    Meta
}

// Departure is a member that has left or failed.
type Departure struct {
	Member
	Left bool // it announced its departure; otherwise it stopped answering
}

// maxDepartures limits the departures that are kept, to the latest.
const maxDepartures = 256

// Gossip is this node's membership of the fleet.
type Gossip struct {
	conf    Config
	address string
	list    *memberlist.Memberlist
	ring    *memberlist.Keyring
	net     *transport
	notes   *notes
	log     *slog.Logger

	mu      sync.Mutex
	meta    Meta
	members map[string]Member // copies, because memberlist changes its own nodes without our lock
	gone    []Departure
	hosts   map[string]int // addresses of members, without ports
	changed chan struct{}  // closed and replaced whenever the members change

	stop context.CancelFunc
	done sync.WaitGroup
}

// Start opens the port and starts searching for other nodes. It does not wait for them: a single node is a fleet of one. It returns
// fault.ErrConfig if the configuration is invalid or listens beyond loopback without a key.
func Start(ctx context.Context, conf Config) (*Gossip, error) {
	if conf.Bind == "" {
		conf.Bind = net.JoinHostPort("127.0.0.1", strconv.Itoa(DefaultPort))
	}
	if err := conf.Check(); err != nil {
		return nil, err
	}
	if conf.RejoinInterval <= 0 {
		conf.RejoinInterval = 30 * time.Second
	}
	if conf.FinderTimeout <= 0 {
		conf.FinderTimeout = findTimeout
	}
	if _, err := conf.Meta.encode(maxMeta); err != nil {
		return nil, err
	}
	g := &Gossip{conf: conf, log: conf.Log, meta: conf.Meta, members: map[string]Member{}, hosts: map[string]int{}, changed: make(chan struct{})}
	mc, err := g.memberlist()
	if err != nil {
		return nil, err
	}
	g.notes = newNotes(conf.Name, g.memberCount)
	port := conf.Port
	if port == nil {
		if port, err = Listen(conf); err != nil {
			return nil, err
		}
	}
	g.net = newTransport(port, len(conf.Keys) > 0, g.isMember, g.log)
	mc.Transport = g.net
	if port := g.net.GetAutoBindPort(); mc.BindPort == 0 {
		mc.BindPort = port
		if conf.Advertise == "" {
			mc.AdvertisePort = port
		}
	}
	if g.list, err = memberlist.Create(mc); err != nil {
		return nil, errors.Join(fmt.Errorf("gossip on %s: %w: %w", conf.Bind, err, fault.ErrConfig), g.net.Shutdown())
	}
	self := g.list.LocalNode() // memberlist changes it later without our lock
	g.address = net.JoinHostPort(self.Addr.String(), strconv.Itoa(int(self.Port)))
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	g.done.Go(func() { g.rejoinLoop(lasting) })
	return g, nil
}

// Check returns fault.ErrConfig if the configuration is invalid, or listens beyond loopback without a key.
func (c Config) Check() error {
	host, _, err := hostPort(c.Bind)
	if err != nil {
		return fmt.Errorf("gossip address %q: %w", c.Bind, err)
	}
	if c.Fleet == "" || len(c.Fleet) > memberlist.LabelMaxSize {
		return fmt.Errorf("gossip: the fleet's name must have 1 to %d bytes: %w", memberlist.LabelMaxSize, fault.ErrConfig)
	}
	if host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return fmt.Errorf("gossip address %q: want an IP address of this machine (0.0.0.0 for all), not a name: %w", c.Bind, fault.ErrConfig)
	}
	if len(c.Keys) == 0 && !loopback(host) {
		return fmt.Errorf("gossip on %s is reachable from other machines and has no key: give --gossip-keys FILE (`rfsctl cert gossip-key` makes one), or bind to 127.0.0.1: %w",
			c.Bind, fault.ErrConfig)
	}
	return nil
}

// memberlist converts the configuration to memberlist's.
func (g *Gossip) memberlist() (*memberlist.Config, error) {
	host, port, err := g.conf.bind()
	if err != nil {
		return nil, err
	}
	c := memberlist.DefaultLANConfig()
	if g.conf.Quick {
		c = memberlist.DefaultLocalConfig()
		c.ProbeInterval, c.ProbeTimeout = 300*time.Millisecond, 150*time.Millisecond
		c.SuspicionMult, c.PushPullInterval = 2, 5*time.Second
	}
	c.Name, c.Label, c.BindAddr, c.BindPort = g.conf.Name, g.conf.Fleet, host, port
	c.AdvertisePort = port
	if g.conf.Advertise != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = hostPort(g.conf.Advertise); err != nil {
			return nil, fmt.Errorf("gossip address to advertise %q: %w", g.conf.Advertise, err)
		}
	}
	c.UDPBufferSize = 1400
	c.EnableCompression = len(g.conf.Keys) > 0 // without a key, compressed frames are refused
	c.TCPTimeout = streamTimeout
	c.DeadNodeReclaimTime = 30 * time.Second // clouds reuse addresses of terminated machines
	c.Delegate, c.Events = delegate{g}, events{g}
	c.Logger = nil
	c.LogOutput = newLogWriter(g.log)
	if g.ring, err = g.conf.Keys.ring(); err != nil {
		return nil, err
	}
	c.Keyring = g.ring
	return c, nil
}

// Address returns the address of this node's gossip (host:port).
func (g *Gossip) Address() string { return g.address }

// Name returns this node's name.
func (g *Gossip) Name() string { return g.conf.Name }

// Members returns the live nodes including this one, sorted by name.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.members))
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (g *Gossip) memberCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(1, len(g.members))
}

// Changed returns a channel that is closed when a member joins, leaves or changes after the call.
func (g *Gossip) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// addMember adds or updates a node. Nodes with unreadable metadata speak another protocol and are ignored.
func (g *Gossip) addMember(n *memberlist.Node) {
	meta, err := decodeMeta(n.Meta)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deleteMember(n.Name)
	g.members[n.Name] = Member{Name: n.Name, Address: net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port))), Meta: meta}
	g.hosts[n.Addr.String()]++
	g.notifyChanged()
}

func (g *Gossip) removeMember(n *memberlist.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m, ok := g.members[n.Name]; ok {
		g.gone = append(g.gone, Departure{Member: m, Left: n.State == memberlist.StateLeft})
		g.gone = slices.Delete(g.gone, 0, max(0, len(g.gone)-maxDepartures))
	}
	g.deleteMember(n.Name)
	g.notifyChanged()
}

// deleteMember removes a member; g.mu is held.
func (g *Gossip) deleteMember(name string) {
	m, ok := g.members[name]
	if !ok {
		return
	}
	delete(g.members, name)
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return // addMember joined host and port
	}
	if g.hosts[host]--; g.hosts[host] == 0 {
		delete(g.hosts, host)
	}
}

// Departures returns the latest 256 departures, oldest first. A member that was unreachable only temporarily is among the Members again.
func (g *Gossip) Departures() []Departure {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.gone)
}

// isMember reports whether a live member has the address.
func (g *Gossip) isMember(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hosts[host] > 0
}

// Refused returns how many connections and packets were refused because of the port's limits.
func (g *Gossip) Refused() uint64 { return g.net.refused.total.Load() }

// notifyChanged wakes the waiters of Changed; g.mu is held.
func (g *Gossip) notifyChanged() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// SetMeta publishes this node's metadata if it has changed.
func (g *Gossip) SetMeta(meta Meta) error {
	if _, err := meta.encode(maxMeta); err != nil {
		return err
	}
	g.mu.Lock()
	same := g.meta == meta
	g.meta = meta
	g.mu.Unlock()
	if same {
		return nil
	}
	if err := g.list.UpdateNode(2 * time.Second); err != nil {
		return fmt.Errorf("gossip of this node's change: %w: %w", err, fault.ErrUnavailable)
	}
	return nil
}

func (g *Gossip) currentMeta() Meta {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.meta
}

// Broadcast sends a note to all nodes.
func (g *Gossip) Broadcast(n Note) error { return g.notes.publish(n) }

// Notes returns the unexpired notes of a kind, including this node's: the newest per origin and key, sorted by origin and key.
func (g *Gossip) Notes(kind string) []Note { return g.notes.list(kind) }

// NoteArrived returns a channel that is closed when the next note from another node arrives. Obtain it before reading Notes.
func (g *Gossip) NoteArrived() <-chan struct{} { return g.notes.nextArrival() }

// Rotate replaces the keys: it adds new keys, encrypts with the first from now on, and removes missing ones. To rotate the keys of a fleet,
// deploy [old new] to all nodes, then [new old], then [new].
func (g *Gossip) Rotate(keys Keys) error {
	if g.ring == nil || len(keys) == 0 {
		return fmt.Errorf("gossip keys cannot be switched on or off while the node runs: %w", fault.ErrConfig)
	}
	return keys.replace(g.ring)
}

// Leave announces that this node leaves, for at most timeout, and closes the port.
func (g *Gossip) Leave(timeout time.Duration) error {
	g.stop()
	lerr := g.list.Leave(timeout)
	err := g.list.Shutdown()
	g.done.Wait()
	if err = errors.Join(lerr, err); err != nil {
		return fmt.Errorf("leave the fleet: %w", err)
	}
	return nil
}

// Abandon closes the port without an announcement, as a crash would.
func (g *Gossip) Abandon() error {
	g.stop()
	err := g.list.Shutdown()
	g.done.Wait()
	return err
}

// bind returns host and port of Bind for memberlist.
func (c Config) bind() (string, int, error) {
	host, port, err := hostPort(c.Bind)
	if err != nil {
		return "", 0, fmt.Errorf("gossip address %q: %w", c.Bind, err)
	}
	switch host {
	case "":
		host = "0.0.0.0"
	case "localhost":
		host = "127.0.0.1"
	}
	return host, port, nil
}

func hostPort(s string) (string, int, error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: %w: %w", p, err, fault.ErrConfig)
	}
	return host, int(port), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
