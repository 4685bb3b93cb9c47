// A libnccl.so.2 for tests of programs with NCCL that is too old.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 2804;
  return 0;
}
