// Runs client scenarios of the conformance suite one after the other in one process: loading the suite costs more than most
// scenarios. The suite is a program without exports, so each scenario evaluates it anew, and `process.exit` ends the scenario.
//
// Arguments: the suite, the client, the revision, and the scenarios. Prints `@scenario NAME` before and `@exit CODE` after each.
import { pathToFileURL } from "node:url";

const [suite, client, revision, ...scenarios] = process.argv.slice(2);
const exit = process.exit;
// The suite prints its results to standard error.
process.stderr.write = process.stdout.write.bind(process.stdout);

class ScenarioExit extends Error {}

const ignoreScenarioExit = (error) => {
  if (!(error instanceof ScenarioExit)) {
    console.error(error);
    exit(2);
  }
};
process.on("unhandledRejection", ignoreScenarioExit);
process.on("uncaughtException", ignoreScenarioExit);

for (const scenario of scenarios) {
  process.argv.splice(1, Infinity, suite, "client", "--scenario", scenario, "--spec-version", revision, "--force");
  process.argv.push("--command", client);
  console.log(`@scenario ${scenario}`);
  // Only the first code counts: the suite catches what `process.exit` throws here, and exits again with 1.
  const code = await new Promise((resolve) => {
    process.exit = (code) => {
      resolve(code ?? 0);
      throw new ScenarioExit();
    };
    import(`${pathToFileURL(suite)}?${encodeURIComponent(scenario)}`).catch(ignoreScenarioExit);
  });
  console.log(`@exit ${code}`);
}
exit(0);
