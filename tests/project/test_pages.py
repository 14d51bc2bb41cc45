"""Pages that are followed: no code of theirs is passed over."""

from __future__ import annotations

import pytest

from tests.pages import Commands, Event, File, parts
from tests.project.files import read

PAGE = """# A page

```
kubectl get nodes
```

1. This is `one.yaml`:

   ```yaml
   a:
     b: 1
   ```

   ```
   kubectl apply \\
     -f one.yaml
   ```
   <!-- meanwhile: it comes -->

<!-- meanwhile: it goes -->
"""


def test_all_code_is_typed_or_saved_without_the_indentation_of_its_list() -> None:
    assert list(parts(PAGE)) == [
        Commands("kubectl get nodes\n"),
        File("one.yaml", "a:\n  b: 1\n"),
        Commands("kubectl apply \\\n  -f one.yaml\n"),
        Event("it comes"),
        Event("it goes"),
    ]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("```yaml\na: 1\n```\n", id="YAML in no file"),
        pytest.param("`a.yaml`, and later `b.yaml`:\n\n```yaml\na: 1\n```\n", id="YAML in one of two files"),
        pytest.param("```json\n{}\n```\n", id="another language"),
        pytest.param("    kubectl get nodes\n", id="code by its indentation"),
        pytest.param("~~~\nkubectl get nodes\n~~~\n", id="another fence"),
        pytest.param("````\nkubectl get nodes\n````\n", id="a longer fence"),
        pytest.param("```\nkubectl get nodes\n", id="a fence that nobody closes"),
        pytest.param("``` sh\nkubectl get nodes\n```\n", id="a fence with more behind it"),
    ],
)
def test_code_that_nobody_could_type_or_save_is_an_error(more: str) -> None:
    with pytest.raises(AssertionError):
        list(parts(f"{PAGE}\nAnd then\n\n{more}"))


def test_the_page_about_ocm_can_be_followed() -> None:
    assert [part.name for part in parts(read("docs/ocm.md")) if isinstance(part, File)]
