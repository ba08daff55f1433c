import { type ReactElement, useState } from "react";

import { Button, Dialog, TextField } from "../../ui/controls/controls.js";
import { isTimeZone } from "../settings.js";

/** Any zone that the browser knows, by its name. */
export function TimeZoneDialog({
  onChoose,
  onClose,
}: {
  readonly onChoose: (timeZone: string) => void;
  readonly onClose: () => void;
}): ReactElement {
  const [name, setName] = useState("");
  const known = isTimeZone(name.trim());
  const choose = (): void => {
    if (known) {
      onChoose(name.trim());
      onClose();
    }
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Times are shown in"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" disabled={!known} onClick={choose}>
            Show times there
          </Button>
        </>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          choose();
        }}
      >
        <TextField
          label="Time zone"
          hint="A name of the IANA database, for example Europe/Berlin"
          list="time-zones"
          value={name}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => setName(event.target.value)}
        />
        <datalist id="time-zones">
          {Intl.supportedValuesOf("timeZone").map((zone) => (
            <option key={zone} value={zone} />
          ))}
        </datalist>
      </form>
    </Dialog>
  );
}
