"""Loaded by programs that a test kills at a point; see ``crash_points``."""

import os

import crash_points

crash_points.install(os.environ[crash_points.VARIABLE])
