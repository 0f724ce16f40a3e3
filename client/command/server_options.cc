#include "client/command/server_options.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

namespace tidemark::command {

void AddServerOptions(CLI::App& app, client::ChannelOptions* options) {
  app.add_option("--server", options->server, "Server, HOST:PORT")
      ->envname("TIDEMARK_SERVER")
      ->capture_default_str();
  app.add_flag("--tls", options->tls, "Connect by TLS, trusting the system's authorities");
  app.add_option("--tls-ca", options->tls_ca_file,
                 "Connect by TLS, trusting the authorities in this PEM file");
}

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (status.ok()) fmt::print("{}", json);
}

}  // namespace tidemark::command
