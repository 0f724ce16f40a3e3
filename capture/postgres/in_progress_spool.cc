#include "capture/postgres/in_progress_spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tidemark::capture::postgres {
namespace {

// Stands before each message; read by this process alone.
struct Header {
  uint64_t sent = 0;
  uint32_t bytes = 0;
};

constexpr size_t kHeaderBytes = sizeof(uint64_t) + sizeof(uint32_t);

void AppendHeader(const Header& header, std::string* out) {
  out->append(reinterpret_cast<const char*>(&header.sent), sizeof(header.sent));
  out->append(reinterpret_cast<const char*>(&header.bytes), sizeof(header.bytes));
}

Header ReadHeader(const char* from) {
  Header header;
  std::memcpy(&header.sent, from, sizeof(header.sent));
  std::memcpy(&header.bytes, from + sizeof(header.sent), sizeof(header.bytes));
  return header;
}

}  // namespace

InProgressSpool::InProgressSpool(std::string folder, std::string name,
                                 const InProgressBounds& bounds)
    : folder_(std::move(folder)), name_(std::move(name)), bounds_(bounds) {
  if (folder_.empty()) refusal_ = "there is no folder for what is in progress";
}

absl::Status InProgressSpool::Refuse(std::string because) {
  if (refusal_.empty()) refusal_ = std::move(because);
  return absl::ResourceExhaustedError(refusal_);
}

absl::Status InProgressSpool::Begin(uint32_t xid) {
  if (held_.size() >= bounds_.transactions_max) {
    return Refuse(fmt::format("more than {} transactions were to be held at a time",
                              bounds_.transactions_max));
  }
  held_[xid];
  return absl::OkStatus();
}

absl::Status InProgressSpool::Add(uint32_t xid, uint64_t sent, std::string_view bytes) {
  Held& held = held_.at(xid);
  const size_t size = kHeaderBytes + bytes.size();
  if (bytes_ + size > bounds_.bytes_max) {
    return Refuse(fmt::format("more than {} bytes of transactions in progress were to be held",
                              bounds_.bytes_max));
  }
  AppendHeader({sent, static_cast<uint32_t>(bytes.size())}, &held.rest);
  held.rest.append(bytes);
  held.bytes += size;
  bytes_ += size;
  return held.rest.size() < kInProgressBufferBytes ? absl::OkStatus() : Flush(&held);
}

absl::Status InProgressSpool::Flush(Held* held) {
  if (!held->file) {
    absl::StatusOr<ScratchFile> file = ScratchFile::Open(folder_, name_);
    if (!file.ok()) return Refuse(std::string(file.status().message()));
    held->file = *std::move(file);
  }
  const absl::StatusOr<uint64_t> free = held->file->DiskFreeBytes();
  if (!free.ok()) return Refuse(std::string(free.status().message()));
  if (*free < bounds_.disk_free_bytes_min + held->rest.size()) {
    return Refuse(fmt::format("the disk of {} had only {} bytes left", folder_, *free));
  }
  absl::Status written = held->file->Append(held->rest);
  if (!written.ok()) return Refuse(std::string(written.message()));
  held->rest.clear();
  return absl::OkStatus();
}

absl::Status InProgressSpool::AbortSubtransaction(uint32_t xid, uint32_t subtransaction_xid) {
  if (aborted_ >= bounds_.aborted_max) {
    return Refuse(
        fmt::format("more than {} savepoints of transactions in progress were rolled back",
                    bounds_.aborted_max));
  }
  if (held_.at(xid).aborted.insert(subtransaction_xid).second) ++aborted_;
  return absl::OkStatus();
}

bool InProgressSpool::IsAborted(uint32_t xid, uint32_t subtransaction_xid) const {
  const auto& aborted = held_.at(xid).aborted;
  return !aborted.empty() && aborted.contains(subtransaction_xid);
}

absl::StatusOr<bool> InProgressSpool::Take(Held* held, size_t bytes) {
  const size_t there = held->taken.size() - held->taken_at;
  if (there >= bytes) return true;
  const uint64_t in_file = held->file ? held->file->size() - held->file_at : 0;
  held->taken.erase(0, std::exchange(held->taken_at, 0));
  if (in_file > 0) {
    const size_t wanted = std::max(bytes - there, kInProgressBufferBytes);
    const auto size = static_cast<size_t>(std::min<uint64_t>(in_file, wanted));
    absl::Status read = held->file->Read(held->file_at, size, &held->taken);
    if (!read.ok()) return Refuse(std::string(read.message()));
    held->file_at += size;
  } else {
    held->taken += std::exchange(held->rest, {});
  }
  if (held->taken.empty()) return false;
  if (held->taken.size() < bytes) return Refuse("what was held of a transaction is cut");
  return true;
}

absl::StatusOr<std::optional<InProgressSpool::Message>> InProgressSpool::Next(uint32_t xid) {
  Held& held = held_.at(xid);
  absl::StatusOr<bool> taken = Take(&held, kHeaderBytes);
  if (!taken.ok()) return taken.status();
  if (!*taken) return std::optional<Message>();
  const Header header = ReadHeader(held.taken.data() + held.taken_at);
  taken = Take(&held, kHeaderBytes + header.bytes);
  if (!taken.ok()) return taken.status();
  const std::string_view bytes(held.taken.data() + held.taken_at + kHeaderBytes, header.bytes);
  held.taken_at += kHeaderBytes + header.bytes;
  return std::optional(Message{header.sent, bytes});
}

void InProgressSpool::Drop(uint32_t xid) {
  const auto held = held_.find(xid);
  bytes_ -= held->second.bytes;
  aborted_ -= held->second.aborted.size();
  held_.erase(held);
}

void InProgressSpool::Committed(uint32_t xid) {
  Drop(xid);
  ++committed_;
}

void InProgressSpool::RolledBack(uint32_t xid) {
  Drop(xid);
  ++rolled_back_;
}

void InProgressSpool::Clear() {
  held_.clear();
  bytes_ = 0;
  aborted_ = 0;
}

}  // namespace tidemark::capture::postgres
