// Defaults and rules of each engine's part of a feed's configuration. Pure; safe from any thread.
// A path is that of the feed: feeds[0].
#pragma once

#include <string>

#include "server/broken_rules.h"
#include "server/stop_order.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

// config_postgres_rules.cc. REQUIRES: where the feed is also polled, that FillPoll came before.
void FillPostgres(v1::FeedConfig* feed);
void CheckPostgres(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken);

// config_poll_rules.cc
void FillPoll(v1::PollConfig* poll);
void CheckPoll(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken);
// What is wrong with where capture is to end: a position; empty: nothing.
std::string PollStopComplaint(const StopOrder& order);

// config_changelog_rules.cc
void FillChangelog(v1::ChangelogConfig* changelog);
void CheckChangelog(const std::string& path, const v1::FeedConfig& feed, BrokenRules* broken);
std::string ChangelogStopComplaint(const v1::ChangelogConfig& changelog, const StopOrder& order);
// No feed may delete what another one still has to read.
void CheckTrimming(const v1::Config& config, BrokenRules* broken);

// config_login_rules.cc: host to silence_timeout, which are the same in both.
void FillLogin(v1::PostgresConfig* login);
void FillLogin(v1::PostgresLogin* login);
void CheckLogin(const std::string& path, const v1::PostgresConfig& login, BrokenRules* broken);
void CheckLogin(const std::string& path, const v1::PostgresLogin& login, BrokenRules* broken);

}  // namespace tidemark
