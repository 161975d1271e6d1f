"""``python -m conformance``."""

from conformance._command import main

raise SystemExit(main())
