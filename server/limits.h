// Every bound of the server, with its unit in its name, and how they relate. Bounds of the store
// and of the sources stand in their folders; what a user may set stands in
// proto/tidemark/v1/config.proto, with its default here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidemark::limits {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;

// Messages. Default channel settings take 4 MiB; no message of ours comes near.
inline constexpr size_t message_bytes_max = 3 * kMiB + 512 * kKiB;
// Cut a message here; what stands alone (one run, one value part) may pass it.
inline constexpr size_t message_bytes_target = 1 * kMiB;
// A client may ask for smaller messages, but not smaller than this: what stands alone has to fit.
inline constexpr size_t message_bytes_min = message_bytes_target + 128 * kKiB;
// Small transactions are packed into one Batch up to this.
inline constexpr size_t batch_bytes_target = 64 * kKiB;
// What waits already is packed up to this.
inline constexpr size_t page_bytes_target = 256 * kKiB;
inline constexpr size_t request_bytes_max = 1 * kMiB;
inline constexpr size_t filter_entries_max = 10'000;
inline constexpr size_t label_bytes_max = 128;
static_assert(message_bytes_max < 4 * kMiB);
static_assert(message_bytes_min < message_bytes_max);
static_assert(batch_bytes_target <= page_bytes_target);
static_assert(page_bytes_target <= message_bytes_target);
static_assert(2 * message_bytes_target <= message_bytes_max);

// Streams.
inline constexpr size_t streams_max = 2'000;
static_assert(streams_max >= 1'000);
// Encoded bytes that wait for one reader, beside the message that gRPC holds.
inline constexpr size_t reader_backlog_bytes_max = 2 * message_bytes_max;
// Newest encoded transactions of one feed, shared by all readers that are near the head.
inline constexpr size_t ring_bytes_max = 16 * kMiB;
static_assert(ring_bytes_max >= 2 * message_bytes_max);

// Time between Progress records while nothing else is sent.
inline constexpr int64_t progress_period_default_ms = 5'000;
inline constexpr int64_t progress_period_min_ms = 100;
inline constexpr int64_t progress_period_max_ms = 300'000;
// Opened.longest_silence is this many progress periods, and at least the minimum.
inline constexpr int64_t longest_silence_periods = 3;
inline constexpr int64_t longest_silence_min_ms = 15'000;
static_assert(longest_silence_min_ms >= longest_silence_periods * progress_period_default_ms);
// A write that is not taken for this long shows in the stream's facts, and pins nothing any more.
inline constexpr int64_t client_stall_notice_ms = 1'000;
// A client that takes nothing for so long, while something is ready, is ended with CLIENT_STALLED.
inline constexpr int64_t client_stall_default_ms = 30 * int64_t{60'000};
inline constexpr int64_t client_stall_min_ms = 1'000;
inline constexpr int64_t client_stall_max_ms = 24 * int64_t{3'600'000};
static_assert(client_stall_notice_ms <= client_stall_min_ms);
static_assert(client_stall_min_ms < client_stall_default_ms);
static_assert(client_stall_default_ms < client_stall_max_ms);
// How often the rows, the log and the queue of a reader that works through the store may hold a
// pool thread.
inline constexpr size_t delivery_slice_bytes_max = 4 * kMiB;
inline constexpr size_t delivery_threads = 2;

// A cursor ahead of the head may be right, as the store may still be catching up: so long it is
// looked at again, and so often.
inline constexpr int64_t cursor_ahead_wait_ms = 2'000;
inline constexpr int64_t cursor_ahead_retry_ms = 100;
static_assert(cursor_ahead_retry_ms < cursor_ahead_wait_ms);

// Unary reads.
inline constexpr size_t read_page_bytes_max = message_bytes_target;
inline constexpr int64_t read_wait_max_ms = 60'000;
// A bounded page that says nothing of waiting waits this long for its bound to be known and proved.
inline constexpr int64_t read_bound_wait_ms = 1'000;

// Findings of a verification that wait for its client.
inline constexpr size_t verify_findings_max = 4'000;

// Ingest. An idle Read returns after this, so that the loop looks at its stop flag and at the
// source's progress.
inline constexpr int64_t read_wait_idle_max_ms = 1'000;
// A source that could not be asked where its log ends is asked again after this, since asking may
// hold capture up; one whose clock has not come to the time in question, after what its clock lacks
// within these.
inline constexpr int64_t end_sample_retry_ms = 500;
inline constexpr int64_t end_sample_wait_min_ms = 10;
inline constexpr int64_t end_sample_wait_max_ms = 60'000;
static_assert(end_sample_wait_min_ms < end_sample_wait_max_ms);
// Waits between attempts at a source that failed: doubled from the first to the longest, each cut
// by a random share.
inline constexpr int64_t retry_wait_first_ms = 200;
inline constexpr int64_t retry_wait_longest_ms = 30'000;
static_assert(retry_wait_first_ms < retry_wait_longest_ms);
// A store without room (disk full, rows too far behind) is tried again this often.
inline constexpr int64_t store_room_wait_ms = 2'000;

// Filled transactions of one batch that are held in memory; beyond, they go by way of the spool.
inline constexpr size_t filled_bytes_max = 8 * kMiB;

// Parts of one large transaction that are held in memory while they are put behind another one's.
inline constexpr size_t joined_bytes_max = 1 * kMiB;

// How often the store's disk is asked how full it is.
inline constexpr int64_t disk_sample_period_ms = 5'000;
// How often gRPC health is brought up to date, and a change of a source's state is noticed.
inline constexpr int64_t health_period_ms = 500;

// Retention.
inline constexpr int64_t retention_period_ms = 10'000;
inline constexpr int64_t retention_age_default_s = int64_t{7} * 24 * 3'600;
inline constexpr uint64_t retention_bytes_default = uint64_t{10} << 30;

// Stopping.
inline constexpr int64_t drain_timeout_default_ms = 10'000;
inline constexpr int64_t drain_timeout_max_ms = 600'000;

// How long a drop waits for the streams of its feed to take their Closing; those that do not read
// on.
inline constexpr int64_t drop_streams_max_ms = 2'000;

// How long a source may take to let go of its thread after the drain; then the process ends anyway,
// which costs nothing but a reconnect.
inline constexpr int64_t source_stop_max_ms = 5'000;
static_assert(drop_streams_max_ms < source_stop_max_ms);
// How long calls in progress may take to end after the drain.
inline constexpr int64_t calls_stop_max_ms = 2'000;
// Clients are asked to come back this long after a drain.
inline constexpr int64_t drain_retry_after_ms = 1'000;

// gRPC. A peer that does not answer a keepalive ping is gone.
inline constexpr int keepalive_time_ms = 30'000;
inline constexpr int keepalive_timeout_ms = 10'000;
// Clients may ping this often without being sent away.
inline constexpr int keepalive_client_min_ms = 5'000;

// Configuration.
inline constexpr size_t config_file_bytes_max = 1 * kMiB;
inline constexpr size_t config_depth_max = 16;
inline constexpr size_t config_nodes_max = 100'000;
inline constexpr size_t config_errors_max = 100;
// How long a stop waits for the file that is read again.
inline constexpr int64_t config_read_end_max_ms = 500;
inline constexpr size_t feeds_max = 256;
inline constexpr size_t feed_name_bytes_max = 63;
inline constexpr size_t secret_file_bytes_max = 64 * kKiB;

}  // namespace tidemark::limits
