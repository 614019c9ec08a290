package gossip

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/signer"
)

const (
	ec2Region = "eu-central-1"
	ec2Secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

// instance is one machine of the account.
type instance struct{ ip, state, tag string }

// cloud answers signed DescribeInstances requests like EC2, one reservation per page.
type cloud struct {
	*signer.Verifier
	instances []instance
	pages     int
}

// launchCloud starts a cloud and gives this process only its credentials.
func launchCloud(t *testing.T, all ...instance) (*cloud, string) {
	t.Helper()
	signer.SetEnvironment(t, ec2Region, "AKIDEXAMPLE", ec2Secret)
	c := &cloud{Verifier: &signer.Verifier{Region: ec2Region, Service: "ec2"}, instances: all}
	c.Add("AKIDEXAMPLE", signer.Key{Secret: ec2Secret})
	server := httptest.NewServer(c.Handler(http.HandlerFunc(c.describe)))
	t.Cleanup(server.Close)
	return c, server.URL
}

func (c *cloud) describe(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "DescribeInstances" {
		http.Error(w, "only DescribeInstances is served", http.StatusBadRequest)
		return
	}
	filters := map[string]string{}
	for i := 1; r.Form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		filters[r.Form.Get(fmt.Sprintf("Filter.%d.Name", i))] = r.Form.Get(fmt.Sprintf("Filter.%d.Value.1", i))
	}
	var found []instance
	for _, i := range c.instances {
		tag, ok := filters["tag:fleet"]
		if (!ok || tag == i.tag) && (filters["instance-state-name"] == "" || filters["instance-state-name"] == i.state) {
			found = append(found, i)
		}
	}
	type item struct {
		ID    string `xml:"instanceId"`
		State string `xml:"instanceState>name"`
		IP    string `xml:"privateIpAddress,omitempty"` // an instance that is about to start has none
	}
	var answer struct {
		XMLName   xml.Name `xml:"http://ec2.amazonaws.com/doc/2016-11-15/ DescribeInstancesResponse"`
		Request   string   `xml:"requestId"`
		Instances []item   `xml:"reservationSet>item>instancesSet>item"`
		Next      string   `xml:"nextToken,omitempty"`
	}
	at := 0
	if token := r.Form.Get("NextToken"); token != "" {
		var err error
		if at, err = strconv.Atoi(strings.TrimPrefix(token, "page-")); err != nil || at >= len(found) {
			http.Error(w, "unknown page", http.StatusBadRequest)
			return
		}
	}
	if at < len(found) {
		answer.Instances = append(answer.Instances, item{ID: fmt.Sprint("i-", at), State: found[at].state, IP: found[at].ip})
	}
	if at+1 < len(found) {
		answer.Next = fmt.Sprint("page-", at+1)
	}
	answer.Request = "r"
	c.pages++
	w.Header().Set("Content-Type", "text/xml")
	_ = xml.NewEncoder(w).Encode(answer) // the client is told what it can be told
}

// finder returns the finder for a --join value.
func (c *cloud) finder(t *testing.T, endpoint, more string) Finder {
	t.Helper()
	f, err := ParseFinder("provider=aws tag_key=fleet tag_value=blue endpoint=" + endpoint + more)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestRunningInstancesAreFoundByTheirTagOnAllPages(t *testing.T) {
	c, url := launchCloud(t, instance{"10.0.0.1", "running", "blue"}, instance{"10.0.0.2", "running", "green"}, instance{"10.0.0.3", "stopped", "blue"},
		instance{"", "running", "blue"}, instance{"10.0.0.4", "running", "blue"}, instance{"fd00::5", "running", "blue"})
	got, err := c.finder(t, url, " port=1234").Find(t.Context())
	if want := []string{"10.0.0.1:1234", "10.0.0.4:1234", "[fd00::5]:1234"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if c.pages != 4 {
		t.Errorf("%d pages were read, want 4", c.pages)
	}
	c.instances = nil
	if got, err := c.finder(t, url, "").Find(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("no instance: %v, %v", got, err)
	}
}

func TestACloudThatRefusesIsNamedWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*testing.T, *cloud)
		more  string
		want  string
	}{
		"secret":  {func(t *testing.T, _ *cloud) { t.Setenv("AWS_SECRET_ACCESS_KEY", "another") }, "", "does not match the signature"},
		"key id":  {func(_ *testing.T, c *cloud) { c.Remove("AKIDEXAMPLE") }, "", "security token included in the request is invalid"},
		"region":  {func(*testing.T, *cloud) {}, " region=us-east-1", "valid region"},
		"clock":   {func(_ *testing.T, c *cloud) { c.Now = func() time.Time { return time.Now().Add(10 * time.Minute) } }, "", "is not within 5 min"},
		"service": {func(_ *testing.T, c *cloud) { c.Service = "es" }, "", "403"},
	} {
		t.Run(name, func(t *testing.T) {
			cl, url := launchCloud(t, instance{"10.0.0.1", "running", "blue"})
			c.spoil(t, cl)
			got, err := cl.finder(t, url, c.more).Find(t.Context())
			if !errors.Is(err, fault.ErrUnavailable) || got != nil {
				t.Fatalf("%v, %v", got, err)
			}
			if s := err.Error(); !strings.Contains(s, c.want) || !strings.Contains(s, "EC2 instances tagged fleet=blue") || strings.Contains(s, ec2Secret) {
				t.Errorf("error %q does not say %q and the tag", s, c.want)
			}
		})
	}
}

func TestANodeJoinsByTheTagOfAnInstance(t *testing.T) {
	a := start(t, member("a", Keys{key(1)}))
	_, port, err := net.SplitHostPort(a.Address())
	if err != nil {
		t.Fatal(err)
	}
	c, url := launchCloud(t, instance{"127.0.0.1", "running", "blue"})
	b := start(t, member("b", Keys{key(1)}, c.finder(t, url, " port="+port)))
	until(t, b, "b knows a", func() bool { return len(b.Members()) == 2 })
}

func TestACloudThatDoesNotAnswerEndsWithTheContext(t *testing.T) {
	c, _ := launchCloud(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
		cancel()
		<-r.Context().Done()
	}))
	defer silent.Close()
	if _, err := c.finder(t, silent.URL, "").Find(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}
