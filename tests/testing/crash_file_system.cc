#include "tests/testing/crash_file_system.h"

#include <utility>

#include "tests/testing/crash_files.h"

namespace tidemark::testing {

CrashFileSystem::CrashFileSystem(const std::filesystem::path& links)
    : files_(std::make_shared<CrashFiles>(links)), env_(NewCrashEnv(files_)) {}

CrashFileSystem::~CrashFileSystem() = default;

rocksdb::Env* CrashFileSystem::env() { return env_.get(); }

void CrashFileSystem::LosePower() { files_->SetPower(false); }

void CrashFileSystem::PowerOn(uint64_t seed) {
  files_->disk().Restore(seed);
  files_->SetPower(true);
}

void CrashFileSystem::SetSpaceLeft(std::optional<uint64_t> bytes) { files_->SetSpaceLeft(bytes); }

void CrashFileSystem::FailWhen(std::function<bool(DiskOperation, const std::string&)> fails) {
  files_->FailWhen(std::move(fails));
}

uint64_t CrashFileSystem::syncs() const { return files_->syncs(); }

}  // namespace tidemark::testing
