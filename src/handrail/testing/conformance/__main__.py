"""``python -m handrail.testing.conformance``."""

from handrail.testing.conformance._command import main

raise SystemExit(main())
