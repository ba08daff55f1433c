/** `telemetry completion`: what a shell needs to complete commands and flags. */
import { Argument, type Command } from "commander";

import { type Define, exitCodes } from "./context.js";
import { createOutput } from "./terminal.js";

const shells = ["bash", "zsh", "fish"] as const;

/** The shells ask `telemetry completion words <line so far>`, so that what they offer is what there is. */
const scripts: Readonly<Record<(typeof shells)[number], string>> = {
  bash: `_telemetry() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(telemetry completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _telemetry telemetry
`,
  zsh: `#compdef telemetry
_telemetry() {
  local -a candidates
  candidates=("\${(@f)$(telemetry completion words -- "\${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
  compadd -a candidates
}
compdef _telemetry telemetry
`,
  fish: `complete -c telemetry -f -a '(telemetry completion words -- (commandline -opc)[2..] 2>/dev/null)'
`,
};

/** `telemetry completion bash|zsh|fish`. */
export const defineCompletion: Define = (command, runs, context) => {
  const print = async (text: string): Promise<number> => {
    const output = createOutput(context.terminal);
    await output.write(text);
    await output.flush();
    return exitCodes.ok;
  };
  for (const shell of shells) {
    const script = command.command(shell).description(`prints the script for ${shell}`);
    runs(script, () => print(scripts[shell]));
  }
  const words = command.command("words", { hidden: true }).addArgument(new Argument("[word...]"));
  runs(words, (line) => {
    const root = command.parent ?? command;
    return print(
      candidates(root, line)
        .map((word) => `${word}\n`)
        .join(""),
    );
  });
  command.addHelpText("after", '\nFor example in ~/.bashrc: eval "$(telemetry completion bash)"');
};

/** What may follow the words of a line: values of a flag, else commands, values of arguments and flags. */
function candidates(root: Command, line: readonly string[]): string[] {
  let command = root;
  for (const word of line) {
    command = command.commands.find((inner) => inner.name() === word) ?? command;
  }
  const last = line.at(-1) ?? "";
  const option = command.options.find(({ long }) => long === last);
  if (option?.required === true) {
    return [...(option.argChoices ?? [])];
  }
  const inner = command.createHelp().visibleCommands(command);
  const used = new Set(line);
  const choices = command.registeredArguments.flatMap((argument) => {
    const name = argument.name();
    return name.includes("|") && !name.split("|").some((word) => used.has(word)) ? name.split("|") : [];
  });
  const flags = command.createHelp().visibleOptions(command);
  return [
    ...inner.map((one) => one.name()),
    ...choices,
    ...flags.flatMap(({ long }) => (long === undefined || long === null || used.has(long) ? [] : [long])),
  ];
}
