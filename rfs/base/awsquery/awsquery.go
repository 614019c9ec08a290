// Package awsquery calls AWS services with form-encoded requests and XML responses (EC2, Auto Scaling). It signs the requests itself: the
// SDK's packages for these services would be half of the program for a few calls.
package awsquery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/rfsd/rfsd/rfs/base/awsconfig"
)

// Client calls one service in one region, with the configuration of awsconfig.
type Client struct {
	Service  string // as in the host name and the signature: ec2, autoscaling
	Version  string // of its API
	Endpoint string // "" is the region's
	Region   string // "" is the chain's
	// RegionSetting names the setting of Region, for messages.
	RegionSetting string
}

// maxAnswer limits a response, in bytes. The largest is a page of EC2 with 1,000 instances.
const maxAnswer = 16 << 20

// Refused is a response of the service other than 200.
type Refused struct {
	Status        int
	Code, Message string // from the service; for a body of another form, Message is its start
}

// Error returns status, code and message.
func (r *Refused) Error() string {
	if r.Code == "" {
		return fmt.Sprintf("status %d: %s", r.Status, r.Message)
	}
	return fmt.Sprintf("status %d: %s: %s", r.Status, r.Code, r.Message)
}

// Session is a Client with its region and credentials.
type Session struct {
	c    Client
	conf aws.Config
}

// Open reads the configuration of AWS. It returns fault.ErrConfig if the region is unknown.
func (c Client) Open(ctx context.Context) (*Session, error) {
	conf, err := awsconfig.Load(ctx, awsconfig.Options{Region: c.Region, RegionSetting: c.RegionSetting})
	if err != nil {
		return nil, err
	}
	return &Session{c, conf}, nil
}

// Call sends one signed request and decodes the response into answer. A response other than 200 is a *Refused.
func (s *Session) Call(ctx context.Context, action string, form url.Values, answer any) error {
	form.Set("Action", action)
	form.Set("Version", s.c.Version)
	body := form.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(s.c.Endpoint, endpoint(s.c.Service, s.conf.Region)), strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	creds, err := awsconfig.Credentials(ctx, s.conf.Credentials)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, creds, req, hex.EncodeToString(sum[:]), s.c.Service, s.conf.Region, time.Now()); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	resp, err := noRedirects.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(b) > maxAnswer:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return refused(resp.StatusCode, b)
	}
	return xml.Unmarshal(b, answer)
}

// noRedirects follows no redirects, so that signed requests go only to the host that they were signed for.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// endpoint returns the URL of a service in a region.
func endpoint(service, region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return "https://" + service + "." + region + "." + domain + "/"
}

// refused returns the error in a response. EC2 sends a list of errors, Auto Scaling a single one.
func refused(status int, answer []byte) *Refused {
	type reason struct{ Code, Message string }
	var body struct {
		Errors []reason `xml:"Errors>Error"`
		Error  reason
	}
	r := &Refused{Status: status}
	if xml.Unmarshal(answer, &body) == nil {
		if len(body.Errors) > 0 {
			body.Error = body.Errors[0]
		}
		r.Code, r.Message = body.Error.Code, body.Error.Message
	}
	if r.Code == "" && r.Message == "" {
		const most = 300
		r.Message = string(answer[:min(len(answer), most)])
	}
	return r
}

// Temporary reports whether the service was overloaded or failed, so that the same request may succeed later.
func (r *Refused) Temporary() bool {
	switch r.Code {
	case "Throttling", "ThrottlingException", "RequestLimitExceeded", "ResourceContention", "ScalingActivityInProgress":
		return true
	}
	return r.Status == http.StatusTooManyRequests || r.Status >= 500
}
