"""The compiled executor: whole programs as LLVM code, with the bits of the reference executor.

Importing this package does not load llvmlite; compiling a program does.
"""
