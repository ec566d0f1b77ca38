// The C API does not report the version of the library, so this calls the C++ function.

#include <cstdio>
#include <rocksdb/version.h>

extern "C" void bench_rocksdb_version(char *text, size_t len) {
    std::snprintf(text, len, "%s", rocksdb::GetRocksVersionAsString().c_str());
}
