package gossip

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/rfsd/rfsd/rfs/fault"
)

// EC2 finds the running instances of an account and region that have a tag. Credentials come
// from the default chain; the only permission needed is ec2:DescribeInstances.
type EC2 struct {
	TagKey, TagValue string
	Region           string // "" is the chain's
	Endpoint         string // "" is the region's
	Port             int
}

// String describes the finder for logs.
func (e EC2) String() string { return "EC2 instances tagged " + e.TagKey + "=" + e.TagValue }

// parseCloud reads "provider=aws key=value …"; values hold no blanks.
func parseCloud(s string) (Finder, error) {
	e := EC2{Port: DefaultPort}
	for _, word := range strings.Fields(s) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("--join %q: invalid %q: want key=value: %w", s, word, fault.ErrConfig)
		}
		switch key {
		case "provider":
			if value != "aws" {
				return nil, fmt.Errorf("--join %q: unknown provider %q: want aws: %w", s, value, fault.ErrConfig)
			}
		case "tag_key":
			e.TagKey = value
		case "tag_value":
			e.TagValue = value
		case "region":
			e.Region = value
		case "endpoint":
			e.Endpoint = value
		case "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("--join %q: port %q: %w", s, value, fault.ErrConfig)
			}
			e.Port = int(n)
		default:
			return nil, fmt.Errorf("--join %q: unknown key %q: want provider, tag_key, tag_value, region, endpoint or port: %w", s, key, fault.ErrConfig)
		}
	}
	if e.TagKey == "" || e.TagValue == "" {
		return nil, fmt.Errorf("--join %q: want both tag_key and tag_value: %w", s, fault.ErrConfig)
	}
	return e, nil
}

// Bounds of one search. A page of EC2's answer holds at most 1,000 instances.
const (
	maxEC2Pages  = 1000
	maxEC2Answer = 16 << 20 // bytes of one page
)

// describeAnswer is the part of the DescribeInstances response that is read.
// Source: Amazon EC2 API Reference, version 2016-11-15.
type describeAnswer struct {
	Addresses []string `xml:"reservationSet>item>instancesSet>item>privateIpAddress"`
	NextToken string   `xml:"nextToken"`
}

// Find returns the private addresses of the running instances. The request is signed here rather than
// sent by the SDK's package for EC2, which would be half of the program for this one call.
func (e EC2) Find(ctx context.Context) ([]string, error) {
	var opts []func(*config.LoadOptions) error
	if e.Region != "" {
		opts = append(opts, config.WithRegion(e.Region))
	}
	conf, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w: %w", err, fault.ErrConfig)
	}
	if conf.Region == "" {
		return nil, fmt.Errorf("list %s: the AWS region is not known; add region=…, or set AWS_REGION: %w", e, fault.ErrConfig)
	}
	form := url.Values{
		"Action": {"DescribeInstances"}, "Version": {"2016-11-15"},
		"Filter.1.Name": {"tag:" + e.TagKey}, "Filter.1.Value.1": {e.TagValue},
		"Filter.2.Name": {"instance-state-name"}, "Filter.2.Value.1": {"running"},
	}
	var all []string
	for range maxEC2Pages {
		page, err := e.describe(ctx, conf, form)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w: %w", e, err, fault.ErrUnavailable)
		}
		for _, ip := range page.Addresses {
			all = append(all, net.JoinHostPort(ip, strconv.Itoa(e.Port)))
		}
		if page.NextToken == "" {
			return all, nil
		}
		form.Set("NextToken", page.NextToken)
	}
	return nil, fmt.Errorf("list %s: more than %d pages: %w", e, maxEC2Pages, fault.ErrUnavailable)
}

// describe sends one signed request and returns its page.
func (e EC2) describe(ctx context.Context, conf aws.Config, form url.Values) (describeAnswer, error) {
	var page describeAnswer
	body := form.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(e.Endpoint, ec2Endpoint(conf.Region)), strings.NewReader(body))
	if err != nil {
		return page, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	creds, err := conf.Credentials.Retrieve(ctx)
	if err != nil {
		return page, fmt.Errorf("no AWS credentials: %w", err)
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, creds, req, hex.EncodeToString(sum[:]), "ec2", conf.Region, time.Now()); err != nil {
		return page, fmt.Errorf("sign: %w", err)
	}
	resp, err := noRedirects.Do(req)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxEC2Answer+1))
	switch {
	case err != nil:
		return page, err
	case len(answer) > maxEC2Answer:
		return page, fmt.Errorf("the answer has more than %d bytes", maxEC2Answer)
	case resp.StatusCode != http.StatusOK:
		return page, fmt.Errorf("status %d: %s", resp.StatusCode, ec2Reason(answer))
	}
	return page, xml.Unmarshal(answer, &page)
}

// noRedirects sends signed requests only to the host they were signed for.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// ec2Endpoint returns the URL of the EC2 API in a region.
func ec2Endpoint(region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain = "amazonaws.com.cn"
	}
	return "https://ec2." + region + "." + domain + "/"
}

// ec2Reason returns code and message of an error response, or its first bytes if it has neither.
func ec2Reason(answer []byte) string {
	var refused struct {
		Errors []struct{ Code, Message string } `xml:"Errors>Error"`
	}
	if xml.Unmarshal(answer, &refused) == nil && len(refused.Errors) > 0 {
		return refused.Errors[0].Code + ": " + refused.Errors[0].Message
	}
	const most = 300
	return string(answer[:min(len(answer), most)])
}
