// Package awsconfig reads the configuration and the credentials of AWS, for all packages that call AWS services, so that the same omission
// has the same message everywhere. Both come from the SDK's default chain: variables, shared files, container and instance roles.
package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Options are the user's settings in addition to the chain. The names of settings are for messages.
type Options struct {
	Region        string // "" is the chain's
	RegionSetting string // such as --s3-region
	RoleARN       string // role to assume with the default credentials; "" for none
	// Client changes how the SDK sends requests; nil: unchanged.
	Client []func(*config.LoadOptions) error
}

// Load reads the configuration. Credentials are read later, see Credentials. It returns fault.ErrConfig if a file of the chain cannot be
// read, or if the region is unknown.
func Load(ctx context.Context, o Options) (aws.Config, error) {
	load := append(slices.Clone(o.Client), config.WithLogger(logging.LoggerFunc(func(_ logging.Classification, format string, v ...any) {
		slog.DebugContext(ctx, "AWS SDK", "message", fmt.Sprintf(format, v...)) // errors have the relevant part
	})))
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	conf, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return conf, fmt.Errorf("AWS configuration cannot be read, correct AWS_PROFILE or the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name: %w: %w", err, fault.ErrConfig)
	}
	if conf.Region == "" {
		return conf, fmt.Errorf("the AWS region is unknown, give %s or set AWS_REGION: %w", o.RegionSetting, fault.ErrConfig)
	}
	if o.RoleARN != "" {
		conf.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(conf), o.RoleARN))
	}
	return conf, nil
}

// NoCredentialsError means that the chain has no credentials, or that the role cannot be assumed. No request was sent for the caller.
type NoCredentialsError struct{ err error }

// Error returns the reason and the remedy.
func (e *NoCredentialsError) Error() string {
	remedy := "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run on a machine that has a role"
	var call *smithy.OperationError
	if errors.As(e.err, &call) && call.Service() == sts.ServiceID {
		remedy = "the credentials of the default chain must be allowed to assume the role"
	}
	return "no AWS credentials, " + remedy + ": " + e.err.Error()
}

// Unwrap returns the reason.
func (e *NoCredentialsError) Unwrap() error { return e.err }

// Credentials returns the credentials of a configuration. Errors are a *NoCredentialsError without a category: whether credentials may
// exist later depends on the caller.
func Credentials(ctx context.Context, from aws.CredentialsProvider) (aws.Credentials, error) {
	c, err := from.Retrieve(ctx)
	if err != nil {
		return c, &NoCredentialsError{err}
	}
	return c, nil
}

// Renew drops credentials that can be renewed, such as a role's, so that the next request obtains new ones. It returns false for keys that
// the operator has to replace.
func Renew(ctx context.Context, from aws.CredentialsProvider) bool {
	cache, ok := from.(*aws.CredentialsCache)
	if !ok {
		return false
	}
	if c, err := cache.Retrieve(ctx); err == nil && !c.CanExpire {
		return false
	}
	cache.Invalidate()
	return true
}
