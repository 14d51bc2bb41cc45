"""Rows, trees and timelines, computed from objects as they were seen: pure, no I/O, no clock."""
