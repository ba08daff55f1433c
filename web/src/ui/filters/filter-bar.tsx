/** Filters as chips, and a field that adds more: `key=value`, with completion by the page. */
import { Autocomplete } from "@base-ui/react/autocomplete";
import { Search, X } from "lucide-react";
import { type KeyboardEvent, type ReactElement, useEffect, useRef, useState } from "react";

import controls from "../controls/controls.module.css";
import { classes } from "../controls/controls.js";
import css from "./filter-bar.module.css";
import { type Filter, formatFilter, parseFilter } from "./filters.js";

interface FilterBarProps {
  readonly filters: readonly Filter[];
  readonly onChange: (change: (before: readonly Filter[]) => readonly Filter[]) => void;
  readonly placeholder?: string;
  /** Whole texts that begin with what was typed: keys, and after an operator values. Another function is asked anew. */
  readonly suggest?: (text: string, signal: AbortSignal) => Promise<readonly string[]>;
}

const suggestAfterMs = 120;

export function FilterBar({ filters, onChange, placeholder, suggest }: FilterBarProps): ReactElement {
  const [text, setText] = useState("");
  const suggestions = useSuggestions(text, suggest);
  const highlighted = useRef<string | undefined>(undefined);
  const input = useRef<HTMLInputElement | null>(null);
  const add = (typed: string): void => {
    const filter = parseFilter(typed);
    if (filter !== null) {
      onChange((before) => [...without(before, filter), filter]);
    }
    setText("");
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) {
      return; // the key is for what is composed
    }
    if (event.key === "Enter" && highlighted.current === undefined) {
      event.preventDefault();
      add(text);
    } else if (event.key === "Backspace" && text === "") {
      onChange((before) => before.slice(0, -1));
    }
  };
  return (
    <div className={css.bar} role="search">
      <Search aria-hidden />
      {filters.map((filter) => (
        <Chip
          key={formatFilter(filter)}
          filter={filter}
          onEdit={() => {
            onChange((before) => without(before, filter));
            setText(formatFilter(filter));
            input.current?.focus();
          }}
          onRemove={(byKeyboard) => {
            onChange((before) => without(before, filter));
            // The button goes. Who touched it wants no keyboard on the screen.
            if (byKeyboard) {
              input.current?.focus();
            }
          }}
        />
      ))}
      <Autocomplete.Root
        items={suggestions}
        filter={null}
        value={text}
        onValueChange={(next, { reason }) => {
          // What a chosen item does is its own affair.
          if (reason !== "item-press") {
            setText(next);
          }
        }}
        onItemHighlighted={(item) => {
          highlighted.current = item;
        }}
      >
        <Autocomplete.Input
          ref={input}
          className={css.input}
          aria-label="Add a filter"
          placeholder={placeholder ?? "key=value, key~part, key!=value"}
          spellCheck={false}
          onKeyDown={onKey}
        />
        <Autocomplete.Portal>
          <Autocomplete.Positioner sideOffset={6} align="start" className={controls.positioner}>
            <Autocomplete.Popup className={classes(controls.popup, css.popup)} hidden={suggestions.length === 0}>
              <Autocomplete.List>
                {(item: string) => (
                  <Autocomplete.Item
                    key={item}
                    value={item}
                    className={controls.item}
                    onClick={() => {
                      // A key alone goes on with its value.
                      if (parseFilter(item)?.operator === "exists") {
                        setText(`${item}=`);
                      } else {
                        add(item);
                      }
                    }}
                  >
                    {item}
                  </Autocomplete.Item>
                )}
              </Autocomplete.List>
            </Autocomplete.Popup>
          </Autocomplete.Positioner>
        </Autocomplete.Portal>
      </Autocomplete.Root>
    </div>
  );
}

function without(filters: readonly Filter[], one: Filter): readonly Filter[] {
  const text = formatFilter(one);
  return filters.filter((each) => formatFilter(each) !== text);
}

function Chip({
  filter,
  onEdit,
  onRemove,
}: {
  readonly filter: Filter;
  readonly onEdit: () => void;
  readonly onRemove: (byKeyboard: boolean) => void;
}): ReactElement {
  const text = formatFilter(filter);
  const negative = filter.operator.startsWith("!") || filter.operator === "missing";
  return (
    <span className={classes(css.chip, negative && css.negative)}>
      <button type="button" className={css.text} title={`${text}: click to change`} onClick={onEdit}>
        {text}
      </button>
      <button type="button" aria-label={`Remove the filter ${text}`} onClick={({ detail }) => onRemove(detail === 0)}>
        <X aria-hidden />
      </button>
    </span>
  );
}

function useSuggestions(text: string, suggest: FilterBarProps["suggest"]): readonly string[] {
  const [found, setFound] = useState<readonly string[]>([]);
  useEffect(() => {
    const controller = new AbortController();
    const look = async (): Promise<void> => {
      try {
        setFound((await suggest?.(text, controller.signal)) ?? []);
      } catch {
        setFound([]); // completion is a help: the field works without
      }
    };
    const timer = setTimeout(() => void look(), suggestAfterMs);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text, suggest]);
  return found;
}
