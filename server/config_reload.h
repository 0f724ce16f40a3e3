// What another configuration means for a server that runs: what takes effect at once, and what with
// a restart only. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

struct ReloadPlan {
  // What is in force when `applied` took effect. Its feeds are those that run, in the same order.
  v1::Config running;
  // Keys of the file that say something else than what is in force: feeds[0].postgres.tables. Never
  // their values, which may be secrets.
  std::vector<std::string> applied;
  std::vector<std::string> with_restart;
};

// `stopped`: names of feeds that take no other tables before a restart. REQUIRES: configurations
// that LoadConfig returned.
ReloadPlan PlanReload(const v1::Config& running, const v1::Config& file,
                      const std::set<std::string>& stopped);

// Tables for which what was ordered stands against the configured ones: "public.a removed".
std::vector<std::string> StandingOrders(const std::vector<TablePattern>& configured,
                                        const std::vector<v1::TableState>& states);

}  // namespace tidemark
