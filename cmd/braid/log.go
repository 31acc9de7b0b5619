package main

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"braid/conf"
)

// newLogger makes the logger that the configuration asks for, to errors unless
// it names a file. The caller calls done when nothing is logged any more.
func newLogger(cfg conf.Log, errors io.Writer) (log *zap.Logger, done func(), err error) {
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil {
		return nil, nil, fmt.Errorf("log.level: %w", err)
	}
	sink, done := zapcore.Lock(zapcore.AddSync(errors)), func() {}
	if cfg.File != "" {
		file, err := os.OpenFile(cfg.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return nil, nil, fmt.Errorf("log.file: %w", err)
		}
		sink, done = zapcore.Lock(file), func() {
			_ = file.Sync()
			_ = file.Close()
		}
	}
	format := zap.NewProductionEncoderConfig()
	format.TimeKey = "time"
	format.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	format.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(format)
	if cfg.Format == "console" {
		format.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(format)
	}
	return zap.New(zapcore.NewCore(encoder, sink, level), zap.AddStacktrace(zap.DPanicLevel)), done, nil
}
