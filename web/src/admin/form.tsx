/** Forms of the administration: fields, what the server said, and the way out. */
import { type FormEvent, type ReactElement, type ReactNode, useEffect, useId, useRef, useState } from "react";

import { ApiError } from "../api/error.js";
import { Button, Dialog, TextField } from "../ui/controls/controls.js";
import { ErrorPart } from "../ui/states.js";
import { toast } from "../ui/toast.js";
import { oneLine } from "../ui/format.js";
import css from "./admin.module.css";
import { type Task, useTask } from "./api.js";
import { fieldProblem } from "./rules.js";

const titles: Readonly<Record<string, string>> = {
  FORBIDDEN: "You may not do this",
  CLAIM_CONTENDED: "This audience is being claimed right now",
  CONFLICT: "Not as things are now",
  NOT_CONFIGURED: "Not configured on this server",
  AUTH_DISABLED: "Not available without authentication",
  NOT_FOUND: "It is no longer there",
};

/** An error in words, where it happened. */
export function AdminError({ title, ...rest }: Parameters<typeof ErrorPart>[0]): ReactElement {
  const { error } = rest;
  return <ErrorPart {...rest} title={(error instanceof ApiError ? titles[error.code] : undefined) ?? title} />;
}

/** Says of a list that is shown that it may be old. */
export function NotAnew({
  list,
  noun,
}: {
  readonly list: { readonly error: unknown; readonly refetch: () => Promise<unknown> };
  /** In the plural. */
  readonly noun: string;
}): ReactElement | null {
  return list.error === null ? null : (
    <AdminError error={list.error} title={`The ${noun} could not be read anew`} onRetry={() => void list.refetch()} />
  );
}

/** @param fields whose problems are shown at them, not below */
export function Form({
  label,
  submit,
  busy,
  error,
  fields = [],
  onSubmit,
  onCancel,
  children,
}: {
  readonly label: string;
  readonly submit: string;
  readonly busy: boolean;
  readonly error: unknown;
  readonly fields?: readonly string[];
  readonly onSubmit: () => void;
  readonly onCancel?: (() => void) | undefined;
  readonly children: ReactNode;
}): ReactElement {
  const shownAtField = fields.some((field) => fieldProblem(error, field) !== null);
  const form = useRef<HTMLFormElement | null>(null);
  const [tries, setTries] = useState(0);
  const sentFrom = useRef<Element | null>(null);
  const saidAtField = shownAtField ? error : null;
  useEffect(() => {
    // The server answers later: whoever has gone on to something else stays there.
    if (tries > 0 && document.activeElement === sentFrom.current) {
      form.current?.querySelector<HTMLElement>("[aria-invalid='true']")?.focus();
    }
  }, [tries, saidAtField]);
  return (
    <form
      ref={form}
      className={css.form}
      aria-label={label}
      noValidate
      autoComplete="off"
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        sentFrom.current = document.activeElement;
        onSubmit();
        setTries(tries + 1); // what is wrong is shown then, and the first of it has the focus
      }}
    >
      {children}
      {error === null || shownAtField ? null : <AdminError error={error} />}
      <div className={css.formActions}>
        <Button look="primary" type="submit" busy={busy}>
          {busy ? "One moment…" : submit}
        </Button>
        {onCancel === undefined ? null : <Button onClick={onCancel}>Cancel</Button>}
      </div>
    </form>
  );
}

/** A text field that offers texts, and takes any. */
export function SuggestField({
  options,
  ...rest
}: Parameters<typeof TextField>[0] & { readonly options: readonly string[] }): ReactElement {
  const id = useId();
  return (
    <>
      <TextField {...rest} list={id} />
      <datalist id={id}>
        {options.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
    </>
  );
}

/** A button for what cannot be taken back: it asks first, naming what it is about. */
export function ConfirmButton({
  label,
  title,
  confirm,
  children,
  done,
  onConfirm,
  disabled = false,
}: {
  readonly label: string;
  /** A question that names the thing. */
  readonly title: string;
  /** On the button that does it. */
  readonly confirm: string;
  /** What follows from it. */
  readonly children: ReactNode;
  /** Said afterwards. */
  readonly done: string;
  readonly onConfirm: () => Promise<void>;
  readonly disabled?: boolean;
}): ReactElement {
  const [open, setOpen] = useState(false);
  const task = useTask(async () => {
    await onConfirm();
    setOpen(false);
    toast(done);
  });
  return (
    <>
      <Button look="danger" disabled={disabled} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <ConfirmDialog open={open} title={title} confirm={confirm} task={task} onClose={() => setOpen(false)}>
        {children}
      </ConfirmDialog>
      {open || task.error === null ? null : <AdminError error={task.error} />}
    </>
  );
}

/**
 * Asks before a task that cannot be taken back. It may be left while that is under way: the task goes on, cannot be begun
 * a second time, and its error is for whoever opened the dialog to show.
 */
export function ConfirmDialog({
  open,
  title,
  confirm,
  task,
  onClose,
  children,
}: {
  readonly open: boolean;
  readonly title: string;
  readonly confirm: string;
  readonly task: Task<readonly []>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactElement {
  const close = (): void => {
    onClose();
    if (!task.busy) {
      task.reset();
    }
  };
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      actions={
        <>
          <Button onClick={close}>{task.busy ? "Close" : "Cancel"}</Button>
          <Button look="danger" busy={task.busy} onClick={() => task.run()}>
            {task.busy ? "One moment…" : oneLine(confirm)}
          </Button>
        </>
      }
    >
      <div className={css.dialogBody}>
        {children}
        {task.error === null ? null : <AdminError error={task.error} />}
      </div>
    </Dialog>
  );
}
