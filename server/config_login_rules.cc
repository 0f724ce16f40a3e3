#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/config_engine_rules.h"
#include "server/config_rules.h"

namespace tidemark {
namespace {

constexpr uint32_t kPortMax = 65'535;
constexpr uint32_t kPortDefault = 5'432;
constexpr int64_t kSilenceTimeoutDefaultS = 30;
constexpr int64_t kSilenceTimeoutMinS = 1;
const std::vector<std::string> kSslModes = {"disable", "prefer", "require", "verify-ca",
                                            "verify-full"};

template <class Login>
void Fill(Login* login) {
  if (login->port() == 0) login->set_port(kPortDefault);
  if (!login->has_silence_timeout()) {
    login->mutable_silence_timeout()->set_seconds(kSilenceTimeoutDefaultS);
  }
  if (login->sslmode().empty()) {
    const bool local = absl::StartsWith(login->host(), "/") || IsLoopbackAddress(login->host());
    login->set_sslmode(local ? "prefer" : "verify-full");
  }
}

template <class Login>
void Check(const std::string& path, const Login& login, BrokenRules* broken) {
  broken->Require(path + ".host", login.host());
  broken->Require(path + ".database", login.database());
  broken->Require(path + ".user", login.user());
  if (login.port() > kPortMax) broken->Fail(path + ".port", "expects 1 to 65535");
  if (!login.password().empty() && !login.password_file().empty()) {
    broken->Fail(path + ".password_file", "given beside password; at most one of the two");
  }
  broken->CheckWord(path + ".sslmode", login.sslmode(), kSslModes);
  broken->CheckPeriod(path + ".silence_timeout", login.silence_timeout(),
                      absl::Seconds(kSilenceTimeoutMinS), absl::InfiniteDuration());
}

}  // namespace

void FillLogin(v1::PostgresConfig* login) { Fill(login); }
void FillLogin(v1::PostgresLogin* login) { Fill(login); }

void CheckLogin(const std::string& path, const v1::PostgresConfig& login, BrokenRules* broken) {
  Check(path, login, broken);
}
void CheckLogin(const std::string& path, const v1::PostgresLogin& login, BrokenRules* broken) {
  Check(path, login, broken);
}

}  // namespace tidemark
