/** Buttons, fields, menus and their like. What is hard to get right for everybody comes from Base UI; the look is ours. */
import { Dialog as BaseDialog } from "@base-ui/react/dialog";
import { Menu as BaseMenu } from "@base-ui/react/menu";
import { Select as BaseSelect } from "@base-ui/react/select";
import { Tooltip as BaseTooltip } from "@base-ui/react/tooltip";
import { Check, ChevronDown, Copy } from "lucide-react";
import {
  type ComponentProps,
  type ReactElement,
  type ReactNode,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";

import css from "./controls.module.css";
import { copyText } from "./copy-and-save.js";
import { oneLine } from "../format.js";

export const classes = (...names: readonly (string | false | null | undefined)[]): string =>
  names.filter((name) => typeof name === "string" && name !== "").join(" ");

interface ButtonProps extends ComponentProps<"button"> {
  readonly look?: "plain" | "primary" | "quiet" | "danger";
  /** What it does is under way: it does nothing, and keeps the focus, which `disabled` would take from it. */
  readonly busy?: boolean;
}

/** A button with words. */
export function Button({
  look = "plain",
  busy = false,
  className,
  type = "button",
  onClick,
  ...rest
}: ButtonProps): ReactElement {
  return (
    <button
      type={type}
      aria-disabled={busy || undefined}
      className={classes(css.button, look !== "plain" && css[look], className)}
      onClick={busy ? (event) => event.preventDefault() : onClick}
      {...rest}
    />
  );
}

/** A button with a picture alone: its label is its tooltip. */
export function IconButton({
  label,
  look = "quiet",
  className,
  ...rest
}: ButtonProps & { readonly label: string }): ReactElement {
  return (
    <Tooltip text={label}>
      <Button aria-label={label} look={look} className={classes(css.icon, className)} {...rest} />
    </Tooltip>
  );
}

/** Buttons side by side that are about one thing. */
export function Joined({ label, children }: { readonly label: string; readonly children: ReactNode }): ReactElement {
  return (
    <div className={css.joined} role="group" aria-label={label}>
      {children}
    </div>
  );
}

/** Copies a text, and says whether it did. */
export function CopyButton({
  text,
  label = "Copy",
  words,
}: {
  readonly text: string;
  readonly label?: string;
  /** Shown beside the picture. */
  readonly words?: string;
}): ReactElement {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    if (await copyText(text)) {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    }
  };
  const picture = copied ? <Check /> : <Copy />;
  const said = copied ? "Copied" : label;
  return words === undefined ? (
    <IconButton label={said} onClick={() => void copy()}>
      {picture}
    </IconButton>
  ) : (
    <Button onClick={() => void copy()} aria-label={said}>
      {picture} {copied ? "Copied" : words}
    </Button>
  );
}

/** Says more about its one child when that is pointed at or focused. */
export function Tooltip({
  text,
  side = "bottom",
  children,
}: {
  readonly text: string;
  readonly side?: "top" | "right" | "bottom" | "left";
  readonly children: ReactElement<Record<string, unknown>>;
}): ReactElement {
  return (
    // Escape hides it, and does beside that what it does where nothing is shown.
    <BaseTooltip.Root onOpenChange={(_open, details) => details.allowPropagation()}>
      <BaseTooltip.Trigger render={children} delay={400} />
      <BaseTooltip.Portal>
        <BaseTooltip.Positioner sideOffset={6} side={side} className={css.positioner}>
          <BaseTooltip.Popup className={css.tooltip}>{text}</BaseTooltip.Popup>
        </BaseTooltip.Positioner>
      </BaseTooltip.Portal>
    </BaseTooltip.Root>
  );
}

interface FieldWords {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly problem?: string | null | undefined;
}

/** A control with its label, and what is wrong with it. */
function Field({
  label,
  hint,
  problem,
  className,
  control,
}: FieldWords & {
  readonly className: string | undefined;
  readonly control: (
    attributes: Pick<ComponentProps<"input">, "id" | "aria-invalid" | "aria-describedby">,
  ) => ReactElement;
}): ReactElement {
  const id = useId();
  const isWrong = typeof problem === "string";
  const about = problem ?? hint;
  return (
    <div className={classes(css.field, className)}>
      <label htmlFor={id} className={css.label}>
        {label}
      </label>
      {control({ id, "aria-invalid": isWrong, "aria-describedby": about === undefined ? undefined : `${id}-about` })}
      {about === undefined ? null : (
        <p id={`${id}-about`} className={isWrong ? css.problem : css.hint}>
          {about}
        </p>
      )}
    </div>
  );
}

/** A text field with its label, and what is wrong with it. */
export function TextField({
  label,
  hint,
  problem,
  className,
  ...rest
}: ComponentProps<"input"> & FieldWords): ReactElement {
  const control: Parameters<typeof Field>[0]["control"] = (attributes) => (
    <input className={css.input} {...attributes} {...rest} />
  );
  return <Field {...{ label, hint, problem, className, control }} />;
}

/** A text of several lines with its label, and what is wrong with it. */
export function TextArea({
  label,
  hint,
  problem,
  className,
  ...rest
}: ComponentProps<"textarea"> & FieldWords): ReactElement {
  const control: Parameters<typeof Field>[0]["control"] = (attributes) => (
    <textarea rows={4} spellCheck={false} className={classes(css.input, css.area)} {...attributes} {...rest} />
  );
  return <Field {...{ label, hint, problem, className, control }} />;
}

/** Yes or no, with its words beside it. */
export function Checkbox({
  label,
  className,
  ...rest
}: ComponentProps<"input"> & { readonly label: ReactNode }): ReactElement {
  return (
    <label className={classes(css.checkbox, className)}>
      <input type="checkbox" {...rest} />
      <span>{label}</span>
    </label>
  );
}

/** A text field whose label is not shown. */
export function Input({
  className,
  ...rest
}: ComponentProps<"input"> & { readonly "aria-label": string }): ReactElement {
  return <input className={classes(css.input, className)} {...rest} />;
}

/**
 * {@link Input} of a text in the address, which follows later than keys are pressed: it shows what is typed at once, and
 * takes from the address what was not typed here. Bound to the address alone, the caret would jump to the end.
 */
export function AddressInput({
  value,
  onType,
  ...rest
}: Omit<Parameters<typeof Input>[0], "value" | "onChange"> & {
  readonly value: string;
  readonly onType: (text: string) => void;
}): ReactElement {
  const [text, setText] = useState(value);
  // What was typed and has not come back, oldest first.
  const sent = useRef<string[]>([]);
  useLayoutEffect(() => {
    const at = sent.current.lastIndexOf(value);
    sent.current.splice(0, at === -1 ? sent.current.length : at + 1);
    if (at === -1) {
      setText(value);
    }
  }, [value]);
  return (
    <Input
      {...rest}
      value={text}
      onChange={({ target }) => {
        setText(target.value);
        sent.current.push(target.value);
        onType(target.value);
      }}
    />
  );
}

/** One of several; `options` are values with the words for them. */
export function Select({
  label,
  value,
  options,
  onChange,
  className,
}: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
  readonly onChange: (value: string) => void;
  readonly className?: string | undefined;
}): ReactElement {
  return (
    <BaseSelect.Root
      value={value}
      items={[...options]}
      modal={false}
      onValueChange={(next) => {
        if (next !== null) {
          onChange(next);
        }
      }}
    >
      <BaseSelect.Trigger aria-label={label} className={classes(css.button, css.select, className)}>
        <BaseSelect.Value />
        <BaseSelect.Icon className={css.selectIcon}>
          <ChevronDown />
        </BaseSelect.Icon>
      </BaseSelect.Trigger>
      <BaseSelect.Portal>
        <BaseSelect.Positioner sideOffset={4} align="start" alignItemWithTrigger={false} className={css.positioner}>
          <BaseSelect.Popup className={css.popup}>
            {options.map((option) => (
              <BaseSelect.Item key={option.value} value={option.value} className={css.item}>
                <span className={css.check}>
                  <BaseSelect.ItemIndicator>
                    <Check />
                  </BaseSelect.ItemIndicator>
                </span>
                <BaseSelect.ItemText>{option.label}</BaseSelect.ItemText>
              </BaseSelect.Item>
            ))}
          </BaseSelect.Popup>
        </BaseSelect.Positioner>
      </BaseSelect.Portal>
    </BaseSelect.Root>
  );
}

/** {@link Select} in a form, with its label above it. */
export function SelectField(o: Parameters<typeof Select>[0]): ReactElement {
  return (
    <div className={css.field}>
      <span className={css.label} aria-hidden>
        {o.label}
      </span>
      <Select {...o} className={classes(css.wide, o.className)} />
    </div>
  );
}

/** A button that opens a menu of {@link MenuItem} and its like. */
export function Menu({
  trigger,
  align = "end",
  children,
}: {
  readonly trigger: ReactElement<Record<string, unknown>>;
  readonly align?: "start" | "end";
  readonly children: ReactNode;
}): ReactElement {
  return (
    <BaseMenu.Root modal={false}>
      <BaseMenu.Trigger render={trigger} />
      <BaseMenu.Portal>
        <BaseMenu.Positioner sideOffset={4} align={align} className={css.positioner}>
          <BaseMenu.Popup className={css.popup}>{children}</BaseMenu.Popup>
        </BaseMenu.Positioner>
      </BaseMenu.Portal>
    </BaseMenu.Root>
  );
}

export function MenuItem({
  onClick,
  disabled = false,
  children,
}: {
  readonly onClick: () => void;
  readonly disabled?: boolean;
  readonly children: ReactNode;
}): ReactElement {
  return (
    <BaseMenu.Item className={css.item} onClick={onClick} disabled={disabled}>
      {children}
    </BaseMenu.Item>
  );
}

/** An item that is on or off; the menu stays open. */
export function MenuCheck({
  checked,
  onChange,
  children,
}: {
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly children: ReactNode;
}): ReactElement {
  return (
    <BaseMenu.CheckboxItem className={css.item} checked={checked} onCheckedChange={onChange} closeOnClick={false}>
      <span className={css.check}>
        <BaseMenu.CheckboxItemIndicator>
          <Check />
        </BaseMenu.CheckboxItemIndicator>
      </span>
      {children}
    </BaseMenu.CheckboxItem>
  );
}

/** Items of which one is chosen. */
export function MenuRadio({
  label,
  value,
  options,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
  readonly onChange: (value: string) => void;
}): ReactElement {
  return (
    <BaseMenu.Group>
      <BaseMenu.GroupLabel className={css.groupLabel}>{label}</BaseMenu.GroupLabel>
      <BaseMenu.RadioGroup value={value} onValueChange={(next: unknown) => onChange(String(next))}>
        {options.map((option) => (
          <BaseMenu.RadioItem key={option.value} value={option.value} className={css.item}>
            <span className={css.check}>
              <BaseMenu.RadioItemIndicator>
                <Check />
              </BaseMenu.RadioItemIndicator>
            </span>
            {option.label}
          </BaseMenu.RadioItem>
        ))}
      </BaseMenu.RadioGroup>
    </BaseMenu.Group>
  );
}

export function MenuSeparator(): ReactElement {
  return <BaseMenu.Separator className={css.separator} />;
}

/** Asks something that has to be answered before the page goes on. For anything longer, see Panel. */
export function Dialog({
  open,
  onClose,
  title,
  children,
  actions,
}: {
  readonly open: boolean;
  /** Null: it cannot be left without an answer. */
  readonly onClose: (() => void) | null;
  readonly title: string;
  readonly children: ReactNode;
  readonly actions: ReactNode;
}): ReactElement {
  return (
    <BaseDialog.Root open={open} onOpenChange={(next) => (next ? undefined : onClose?.())}>
      <BaseDialog.Portal>
        <BaseDialog.Backdrop className={css.backdrop} />
        <BaseDialog.Popup className={css.dialog}>
          <BaseDialog.Title render={<h2>{oneLine(title)}</h2>} />
          {children}
          <div className={css.dialogActions}>{actions}</div>
        </BaseDialog.Popup>
      </BaseDialog.Portal>
    </BaseDialog.Root>
  );
}
