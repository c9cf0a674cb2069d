"""The core: abstract values, ops, traces, the IR and its printer."""
