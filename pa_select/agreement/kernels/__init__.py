"""The solver: it finds and certifies the maximum of the kernel; see docs/certificate.rst."""
